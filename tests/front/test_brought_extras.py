"""What people bring from other libraries; `make test-extras` has them all. Nothing is downloaded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fedstep
from fedstep.data import Pad, clients_from


def sequences(n=8, length=6, seed=0):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, 11, (n, length), generator=g)
    return tokens, (tokens[:, 0] > 5).long()


def bert(transformers):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=11,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    return transformers.BertForSequenceClassification(config)


def gpt2(transformers):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=11,
        n_positions=16,
        n_embd=16,
        n_layer=1,
        n_head=2,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.GPT2LMHeadModel(config)


def train(model, data, **options):
    options = {"local_steps": 3, "batch": 4, "rounds": 2, "progress": False, **options}
    return fedstep.fit(model, data, "fedsls", **options)


def test_a_hugging_face_classifier_of_dicts():
    transformers = pytest.importorskip("transformers")
    data = []
    for seed in range(3):
        tokens, labels = sequences(seed=seed)
        data.append(
            {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}
        )
    result = train(bert(transformers), data, test=data[0], rounds=3)
    assert torch.isfinite(result.x).all()
    last = result.rows[-1]
    with torch.no_grad():
        output = result.model(**data[0])
    assert last.test_loss == pytest.approx(float(output.loss), rel=1e-4)
    hits = output.logits.argmax(-1) == data[0]["labels"]
    assert last.accuracy == pytest.approx(float(hits.float().mean()))
    workers = train(bert(transformers), data, rounds=3, workers=2)
    assert torch.equal(workers.x, result.x)


def test_a_causal_model_is_scored_on_the_next_token():
    transformers = pytest.importorskip("transformers")
    data = []
    for seed in range(2):
        tokens, _ = sequences(seed=seed)
        data.append({"input_ids": tokens, "labels": tokens})
    result = train(gpt2(transformers).eval(), data, test=data[0])
    with torch.no_grad():
        output = result.model(**data[0])
    hits = output.logits[:, :-1].argmax(-1) == data[0]["labels"][:, 1:]
    last = result.rows[-1]
    assert last.accuracy == pytest.approx(float(hits.float().mean()))
    assert last.test["perplexity"] == pytest.approx(float(output.loss.exp()), rel=1e-4)


def test_datasets_of_the_hub_are_clients_and_columns_fit_the_model():
    transformers = pytest.importorskip("transformers")
    datasets = pytest.importorskip("datasets")
    clients, plain = [], []
    for seed in range(2):
        tokens, labels = sequences(seed=seed)
        columns = {"text": ["words"] * 8, "input_ids": tokens.tolist(), "label": labels.tolist()}
        clients.append(datasets.Dataset.from_dict(columns))
        plain.append({"input_ids": tokens, "labels": labels})
    result = train(bert(transformers), clients, test=clients[0])
    assert "columns left out: text" in str(result)
    assert torch.equal(result.x, train(bert(transformers), plain).x)
    with pytest.raises(fedstep.InputError, match="dict of splits"):
        train(bert(transformers), datasets.DatasetDict(train=clients[0], test=clients[1]))
    by_author = datasets.DatasetDict(ann=clients[0], bob=clients[1])
    assert torch.equal(train(bert(transformers), by_author).x, result.x)
    with pytest.raises(fedstep.InputError, match="clients is one table"):
        train(bert(transformers), clients[0])


def test_text_of_unequal_length_from_a_dataset_is_padded():
    transformers = pytest.importorskip("transformers")
    datasets = pytest.importorskip("datasets")
    clients = []
    for seed in range(2):
        tokens, labels = sequences(seed=seed)
        rows = [row[: 3 + k % 4].tolist() for k, row in enumerate(tokens)]
        masks = [[1] * len(row) for row in rows]
        columns = {"input_ids": rows, "attention_mask": masks, "labels": labels.tolist()}
        clients.append(datasets.Dataset.from_dict(columns))
    with pytest.raises(fedstep.InputError, match=r"client 0: samples differ in shape.*Pad"):
        train(bert(transformers), clients)
    result = train(bert(transformers), clients, collate=Pad(), test=clients[0])
    assert torch.isfinite(result.x).all()
    assert 0 <= result.rows[-1].accuracy <= 1


def test_padding_counts_for_nothing_in_a_causal_model():
    transformers = pytest.importorskip("transformers")
    tokens, _ = sequences(8, 5)

    def longer(samples):
        rows = torch.stack([sample["input_ids"] for sample in samples])
        fill = nn.functional.pad
        return {
            "input_ids": fill(rows, (0, 3)),
            "attention_mask": fill(torch.ones_like(rows), (0, 3)),
            "labels": fill(rows, (0, 3), value=-100),
        }

    samples = [{"input_ids": row, "labels": row} for row in tokens]
    model = gpt2(transformers).eval()
    padded = train(model, [samples], collate=longer, test=samples)
    plain = train(
        model,
        [{"input_ids": tokens, "labels": tokens}],
        test={"input_ids": tokens, "labels": tokens},
    )
    assert torch.allclose(padded.x, plain.x, rtol=1e-3, atol=1e-4)
    for name in ("accuracy", "perplexity"):
        assert padded.rows[0].test[name] == pytest.approx(plain.rows[0].test[name], rel=1e-3)


def frame_columns(n=30):
    rng = np.random.default_rng(0)
    dose = 100 * rng.random(n)
    return {
        "hospital": [f"h{k % 3}" for k in range(n)],
        "age": rng.integers(20, 80, n),
        "dose": dose,
        "y": (dose > 50).astype(int),
    }


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_give_the_clients_of_their_columns(library, capsys):
    frames = pytest.importorskip(library)
    columns = frame_columns()
    made = clients_from(frames.DataFrame(columns), client="hospital", target="y")
    plain = clients_from(columns, client="hospital", target="y")
    assert all(torch.equal(a, b) for a, b in zip(made.fields, plain.fields, strict=True))
    assert made.sizes.tolist() == [10, 10, 10]
    result = train(nn.Linear(2, 2), made, standardize=True, test=made, rounds=5)
    assert result.rows[-1].accuracy > 0.7


def test_a_frame_with_gaps_and_texts_is_refused_by_the_name_of_the_column():
    pandas = pytest.importorskip("pandas")
    columns = frame_columns()
    gaps = pandas.DataFrame({**columns, "dose": [None, *columns["dose"][1:]]})
    with pytest.raises(fedstep.InputError, match="column 'dose': 1 of 30 values are missing"):
        clients_from(gaps, client="hospital", target="y")
    texts = pandas.DataFrame({**columns, "sex": ["f", "m"] * 15})
    with pytest.raises(fedstep.InputError, match=r"column 'sex'.*inputs="):
        clients_from(texts, client="hospital", target="y")
    made = clients_from(texts, client="hospital", target="sex", inputs=["age"])
    assert made.fields[1].tolist() == [0, 1] * 15


def test_a_table_of_datasets_has_clients_too(capsys):
    datasets = pytest.importorskip("datasets")
    made = clients_from(datasets.Dataset.from_dict(frame_columns()), client="hospital", target="y")
    assert made.sizes.tolist() == [10, 10, 10]


def test_labels_inside_the_batch_of_a_causal_model_with_padding_count_once():
    transformers = pytest.importorskip("transformers")
    tokens, _ = sequences(8, 6)
    lengths = [3 + k % 4 for k in range(8)]
    samples = []
    for row, length in zip(tokens, lengths, strict=True):
        ids = row[:length]
        samples.append(
            {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
        )
    model = gpt2(transformers).eval()
    result = train(model, [samples, samples[:5]], collate=Pad(), test=samples)
    batch = Pad()(samples)
    with torch.no_grad():
        logits = result.model(**batch).logits[:, :-1]
    targets = batch["labels"][:, 1:]
    real = targets != -100
    hits = (logits.argmax(-1) == targets)[real].float().mean()
    assert result.rows[-1].accuracy == pytest.approx(float(hits))


def test_gradient_checkpointing_of_hugging_face_changes_no_bits():
    transformers = pytest.importorskip("transformers")
    data = []
    for seed in range(2):
        tokens, labels = sequences(seed=seed)
        data.append({"input_ids": tokens, "labels": labels})
    saving = bert(transformers).train()
    saving.gradient_checkpointing_enable()
    ends = [train(model, data).x for model in (saving, bert(transformers).train())]
    assert torch.equal(*ends)


def test_a_stream_of_the_hub_is_refused_in_one_line():
    transformers = pytest.importorskip("transformers")
    datasets = pytest.importorskip("datasets")
    tokens, labels = sequences()
    table = datasets.Dataset.from_dict({"input_ids": tokens.tolist(), "label": labels.tolist()})
    with pytest.raises(fedstep.InputError, match="client 0 is an IterableDataset"):
        train(bert(transformers), [table.to_iterable_dataset()])


def test_a_hugging_face_model_in_16_bits_comes_back_in_16_bits():
    transformers = pytest.importorskip("transformers")
    tokens, labels = sequences()
    model = bert(transformers).to(torch.bfloat16)
    result = train(model, [{"input_ids": tokens, "labels": labels}])
    assert result.x.dtype == torch.float32
    assert next(result.model.parameters()).dtype == torch.bfloat16
