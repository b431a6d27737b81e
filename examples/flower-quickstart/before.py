"""A Flower app for PyTorch as Flower's quickstart describes it, server and clients in one file."""

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from task import Net, data_of, test, train

client = ClientApp()
server = ServerApp()


@client.train()
def train_here(message: Message, context: Context) -> Message:
    """Train the received model on the node's data."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loader, _ = data_of(context)
    loss = train(net, loader, 1, message.content["config"]["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content, reply_to=message)


@client.evaluate()
def evaluate_here(message: Message, context: Context) -> Message:
    """Evaluate the received model on the node's held-out data."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, loader = data_of(context)
    loss, accuracy = test(net, loader)
    metrics = {"loss": loss, "accuracy": accuracy, "num-examples": len(loader.dataset)}
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Three rounds, then the last evaluation."""
    arrays = ArrayRecord(Net().state_dict())
    strategy = FedAvg(fraction_evaluate=1.0)
    config = ConfigRecord({"lr": 0.01})
    result = strategy.start(grid, initial_arrays=arrays, train_config=config, num_rounds=3)
    print(result.evaluate_metrics_clientapp[3])
