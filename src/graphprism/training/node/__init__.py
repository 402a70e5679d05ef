"""Node classification: runs on all nodes of one graph at once."""

from graphprism.datasets.leak_audit import LeakAudit, leak_audit
from graphprism.training.node.build_node_model import build_node_model
from graphprism.training.node.node_run import NodeRun
from graphprism.training.node.train_node import train_node
from graphprism.training.node.train_nodes import train_nodes

__all__ = ["LeakAudit", "NodeRun", "build_node_model", "leak_audit", "train_node", "train_nodes"]
