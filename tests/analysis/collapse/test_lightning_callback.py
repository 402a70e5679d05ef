from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from graphprism.analysis.collapse import CollapseMonitor, lightning_callback


class Callback:
    """Stands for the class of Lightning."""


def setting():
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    return SimpleNamespace(model=GCN(3, 4, num_layers=2)), data


def test_steps_after_every_batch_on_the_first_process():
    module, data = setting()
    monitor = CollapseMonitor(every=2)
    callback = lightning_callback(Callback, monitor, select=lambda module: module.model)
    assert isinstance(callback, Callback)
    for batch_idx in range(4):
        callback.on_train_batch_end(SimpleNamespace(is_global_zero=True), module, None, data, batch_idx)
        callback.on_train_batch_end(SimpleNamespace(is_global_zero=False), module, None, data, batch_idx)
    assert [step for step, _ in monitor.history] == [0, 2]
    assert callback.state_dict() == {"step": 4}


def test_state_and_fixed_data():
    module, data = setting()
    monitor = CollapseMonitor(every=5)
    callback = lightning_callback(Callback, monitor, data=data)
    callback.load_state_dict({"step": 10})
    callback.on_train_batch_end(SimpleNamespace(is_global_zero=True), module.model, None, "not data", 0)
    assert [step for step, _ in monitor.history] == [10]


def test_the_class_comes_first():
    with pytest.raises(TypeError, match="`callback_class` must be a class, got CollapseMonitor"):
        lightning_callback(CollapseMonitor(), Callback)


@pytest.mark.filterwarnings("ignore")
def test_with_a_real_trainer(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    _, data = setting()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.gcn = GCN(3, 4, num_layers=2)

        def forward(self, x, edge_index):
            return self.gcn(x, edge_index)

        def training_step(self, batch, _):
            return self(batch.x, batch.edge_index).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    monitor = CollapseMonitor(every=2, csv=tmp_path / "collapse.csv")
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[lightning_callback(lightning.Callback, monitor)],
    )
    loader = torch.utils.data.DataLoader([data] * 5, batch_size=None)
    trainer.fit(Module(), loader)
    assert [step for step, _ in monitor.history] == [0, 2, 4]
