"""The sentences whose numbers are made, page by page."""

from __future__ import annotations

from collections.abc import Mapping

from evidence_curves import OURS, REMEMBERING
from lookups import (
    Number,
    at_round,
    averaged,
    behind,
    final,
    of_seed,
    reach,
    rounds,
    tenth,
    track_cost,
    track_score,
    track_target,
    worst,
)
from sentences import Sentence

EVIDENCE = "docs/evidence.md"


def sentence(page: str, words: str, **numbers: Number) -> Sentence:
    """Words with places, and how the number of each is found."""

    def found() -> Mapping[str, str]:
        return {name: number() for name, number in numbers.items()}

    return Sentence(page, words, found)


SENTENCES = (
    sentence(
        EVIDENCE,
        "it ends at {ours}, is as good as tuned FedDyn in its end at round {reach}, which is",
        ours=final("FEMNIST", REMEMBERING),
        reach=reach("FEMNIST", REMEMBERING),
    ),
    sentence(
        EVIDENCE,
        "of the {rounds} rounds that FedDyn was given with its tuning, and has the lowest training "
        "loss and the best worst tenth of all methods that have one here ({ours}; FedDyn {theirs}).",
        rounds=rounds("FEMNIST"),
        ours=worst("FEMNIST", REMEMBERING),
        theirs=worst("FEMNIST", "FedDyn"),
    ),
    sentence(
        EVIDENCE,
        "It ends at {remembering}, level with `fedpace`, and is as good as tuned SCAFFOLD in its "
        "end at round {reach}. Its seeds differ more on the way, and the worst tenth of its "
        "clients has {worst} where that of `fedpace` has {ours}.",
        remembering=final("CIFAR-100", REMEMBERING),
        reach=reach("CIFAR-100", REMEMBERING),
        worst=worst("CIFAR-100", REMEMBERING),
        ours=worst("CIFAR-100", OURS),
    ),
    sentence(
        EVIDENCE,
        "It ends at {remembering}, a little below `fedpace` at {ours}, and reaches the final accuracy of "
        "FedExP at round {reach}, `fedpace` at {ours_reach}.",
        remembering=final("Shakespeare", REMEMBERING),
        ours=final("Shakespeare", OURS),
        reach=reach("Shakespeare", REMEMBERING),
        ours_reach=reach("Shakespeare"),
    ),
    sentence(
        EVIDENCE,
        "- Of those that tune nothing either, FATHOM ends at {fathom} and Delta-SGD at {delta}, for two "
        "gradients a step.",
        fathom=final("FEMNIST, CNN", "FATHOM"),
        delta=final("FEMNIST, CNN", "Delta-SGD"),
    ),
    sentence(
        EVIDENCE,
        "- FedExP, tuned, ends at {fedexp} as well;",
        fedexp=final("FEMNIST, CNN", "FedExP"),
    ),
    sentence(
        EVIDENCE,
        "It ends at {remembering} where `fedpace` has {ours}, and its seeds differ more.",
        remembering=final("CIFAR-10", REMEMBERING),
        ours=final("CIFAR-10", OURS),
    ),
    sentence(
        EVIDENCE,
        "FedSpeed ends at {speed}, for three gradients a step, FedCM at {cm}, FedAvgM at {avgm}, "
        "FedYogi at {yogi}, FedExProx, as programs have it, at {exprox} and FedProx at {prox}, "
        "as FedAvg does.",
        speed=final("FEMNIST", "FedSpeed"),
        cm=final("FEMNIST", "FedCM"),
        avgm=final("FEMNIST", "FedAvgM"),
        yogi=final("FEMNIST", "FedYogi"),
        exprox=final("FEMNIST", "FedExProx, as programs have it"),
        prox=final("FEMNIST", "FedProx"),
    ),
    sentence(
        EVIDENCE,
        "which is as good at round {reach} of 500: from round 125 on",
        reach=reach("FEMNIST"),
    ),
    sentence(
        EVIDENCE,
        "`fedpace` is as good as the best rival in its end at rounds {cifar} and {text}.",
        cifar=reach("CIFAR-100"),
        text=reach("Shakespeare"),
    ),
    sentence(
        EVIDENCE,
        "The rivals have spent {writers} rounds in all on FEMNIST and {others} elsewhere; `fedpace` "
        "would have to be as good within {tenth} and {others_tenth}.",
        writers=rounds("FEMNIST"),
        others=rounds("CIFAR-10"),
        tenth=tenth("FEMNIST"),
        others_tenth=tenth("CIFAR-10"),
    ),
    sentence(
        EVIDENCE,
        "`fedpace` in the end, at {ours}: tuned FedDyn at {dyn} and tuned SCAFFOLD at {scaffold},",
        ours=final("FEMNIST", OURS),
        dyn=final("FEMNIST", "FedDyn"),
        scaffold=final("FEMNIST", "SCAFFOLD"),
    ),
    sentence(
        EVIDENCE,
        "is ahead until round 100 ({ahead} against {behind}) and behind at round 200 "
        "({ours} against {theirs}).",
        ahead=at_round("FEMNIST", OURS, 100),
        behind=at_round("FEMNIST", "FedDyn", 100),
        ours=at_round("FEMNIST", OURS, 200),
        theirs=at_round("FEMNIST", "FedDyn", 200),
    ),
    sentence(
        EVIDENCE,
        "serves the worst tenth of the writers better ({theirs} against {ours}).",
        theirs=worst("FEMNIST", "FedDyn"),
        ours=worst("FEMNIST", OURS),
    ),
    sentence(
        EVIDENCE,
        "FedAdam, tuned on writers that do not train, ends at {now}, in half of the bytes.",
        now=final("FEMNIST", "FedAdam"),
    ),
    sentence(
        EVIDENCE,
        "at the step that is best in 50 rounds it is at {early} after 20 rounds and has lost it",
        early=at_round("FEMNIST, CNN", "FedAvg", 20),
    ),
    sentence(
        EVIDENCE,
        "which nobody would have known before, it ends at {accuracy}:",
        accuracy=final("FEMNIST, CNN", "FedAvg, a third of the step"),
    ),
    sentence(
        EVIDENCE,
        "their worst tenth has {theirs}, that of `fedpace` {ours}.",
        theirs=worst("FEMNIST, CNN", "FedAdam"),
        ours=worst("FEMNIST, CNN", OURS),
    ),
    sentence(
        EVIDENCE,
        "on one seed it has {low} at round 120 and {high} at round 200.",
        low=of_seed("CIFAR-10", "FedAdam", 0, 120),
        high=of_seed("CIFAR-10", "FedAdam", 0, 200),
    ),
    sentence(
        EVIDENCE,
        "are level with tuned FedAdam here, at {fathom} and {delta}; Delta-SGD takes",
        fathom=final("CIFAR-100", "FATHOM"),
        delta=final("CIFAR-100", "Delta-SGD"),
    ),
    sentence(
        EVIDENCE,
        "On Shakespeare both are far behind, at {fathom} and {delta}, and on FEMNIST {fathom_gap} "
        "and {delta_gap} points behind `fedpace`.",
        fathom=final("Shakespeare", "FATHOM"),
        delta=final("Shakespeare", "Delta-SGD"),
        fathom_gap=behind("FEMNIST", "FATHOM", OURS),
        delta_gap=behind("FEMNIST", "Delta-SGD", OURS),
    ),
    sentence(
        EVIDENCE,
        "is at {early} after 20 rounds and ends at {late}. Of the others that tune nothing, FATHOM "
        "ends at {fathom}, level with tuned FedAvg at {average}, and Delta-SGD at {delta} for",
        early=at_round("CIFAR-10", "FedAdam-SLS", 20),
        late=final("CIFAR-10", "FedAdam-SLS"),
        fathom=final("CIFAR-10", "FATHOM"),
        average=final("CIFAR-10", "FedAvg"),
        delta=final("CIFAR-10", "Delta-SGD"),
    ),
    sentence(
        EVIDENCE,
        "NGN and FedSPS end at {ngn} and {sps}, as tuned FedAvg does",
        ngn=final("FEMNIST", "NGN"),
        sps=final("FEMNIST", "FedSPS"),
    ),
    sentence(
        EVIDENCE,
        "with hindsight, it diverges on none and ends at {accuracy}.",
        accuracy=final("CIFAR-10", "SCAFFOLD, a third of the step"),
    ),
    sentence(
        "docs/leaderboard.md",
        "(`fedngn` in {quick} rounds where it needs {ours})",
        quick=track_cost("clusters-noise", "fedngn"),
        ours=track_cost("clusters-noise", "fedpace"),
    ),
    sentence(
        "docs/leaderboard.md",
        "with one step a round it never does ({ours} of {target} %)",
        ours=track_score("clusters-one-step", "fedpace"),
        target=track_target("clusters-one-step"),
    ),
    sentence(
        "README.md",
        "With the same average tuned FedAdam ends at {cifar} on CIFAR-10 and at {cnn} on FEMNIST "
        "with the CNN, above FedPace",
        cifar=averaged("CIFAR-10", "FedAdam"),
        cnn=averaged("FEMNIST, CNN", "FedAdam"),
    ),
)
