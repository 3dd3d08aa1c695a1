"""What counts as code that runs on some versions of JAX only."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from shardfix.semantics.module import Module
from shardfix.semantics.project import Project


def is_gated(program: str) -> bool:
    """Whether the expression ``HERE``, or ``.vma``, of the program runs only on some versions of JAX."""
    module = Module(textwrap.dedent(program))
    (node,) = (
        *(name for name in module.nodes(ast.Name) if name.id == "HERE"),
        *(attribute for attribute in module.nodes(ast.Attribute) if attribute.attr == "vma"),
    )
    return module.is_compatibility_code(node)


@pytest.mark.parametrize(
    "program",
    [
        "import jax\nif hasattr(jax, 'shard_map'):\n    pass\nelse:\n    HERE",
        "import jax\nif jax.__version__ < '0.8':\n    HERE",
        "import jax\nNEW = jax.__version_info__ >= (0, 8)\nx = HERE if NEW else None",
        "from importlib.metadata import version\nif version('jax') > '0.8':\n    HERE",
        "import inspect, jax\nif 'check_vma' in inspect.signature(jax.shard_map).parameters:\n    HERE",
        "from importlib.util import find_spec\nif find_spec('jax.experimental.maps'):\n    HERE",
        "import jax\nif hasattr(jax.typeof(1), 'vma'):\n    HERE",
        "from utils import module_version\nif module_version('jax') < (0, 8, 2):\n    HERE",
        "def f(x):\n    if hasattr(x, 'vma'):\n        return x.vma",
        "def f(x):\n    if not hasattr(x, 'vma'):\n        return None\n    return x.vma",
        "import jax\ntry:\n    HERE\nexcept AttributeError:\n    pass",
        "try:\n    from jax import shard_map\n    HERE\nexcept ImportError:\n    pass",
        "try:\n    from jax.x import y\n    OLD = True\nexcept ImportError:\n    OLD = False\nif OLD:\n    HERE",
        "import jax\ndef f():\n    if hasattr(jax, 'x'):\n        return 1\n    HERE",
        "import jax\nif jax.__version__ >= '0.8':\n    raise ImportError\nHERE",
        "import jax\nassert jax.__version_info__ < (0, 8)\nHERE",
        "import jax\nx = getattr(jax, 'x', None) or HERE",
        "import jax\ndef is_new():\n    return hasattr(jax, 'x')\nif is_new():\n    HERE",
        "import jax\nif 'x' in dir(jax):\n    HERE",
        "import sys\nif 'jax.experimental.maps' in sys.modules:\n    HERE",
        "import jax\nx = hasattr(jax, 'x') and HERE",
        "import jax\nmatch hasattr(jax, 'x'):\n    case True:\n        HERE",
        "import contextlib\nwith contextlib.suppress(ImportError):\n    from jax import x\n    HERE",
        "import jax\nfrom contextlib import suppress\nwith suppress(AttributeError):\n    HERE",
        "import jax, pytest\n@pytest.mark.skipif(jax.__version__ > '0.8', reason='gone')\ndef f():\n    HERE",
        "import jax, unittest\n@unittest.skipUnless(hasattr(jax, 'x'), '')\nclass A:\n    def f(self):\n        HERE",
        "import jax\nclass A:\n    NEW = hasattr(jax, 'x')\n    def f(self):\n        if self.NEW:\n            HERE",
    ],
)
def test_gates(program: str) -> None:
    assert is_gated(program)


@pytest.mark.parametrize(
    "program",
    [
        "import jax\ndef f(config):\n    if hasattr(config, 'mesh'):\n        HERE",
        "import importlib\nlayer = importlib.import_module('models.layer').Layer()\nif layer is not None:\n    HERE",
        "import inspect\ndef f(g):\n    if 'rng' in inspect.signature(g).parameters:\n        HERE",
        "try:\n    import wandb\n    HAVE = True\nexcept ImportError:\n    HAVE = False\nif HAVE:\n    HERE",
        "import jax\ndef f(x):\n    if getattr(x, 'jax', None):\n        HERE",
        "def f(x):\n    if hasattr(x, 'shape'):\n        return x.vma",
        "from utils import module_version\nif module_version('numpy') < (2, 0):\n    HERE",
        "import jax\nif jax.process_index() == 0:\n    HERE",
        "import jax\ntry:\n    HERE\nexcept KeyError:\n    pass",
        "import jax\nif jax.__version__ < '0.4':\n    raise ImportError('too old')\nHERE",
        "import jax\nif not hasattr(jax, 'make_mesh'):\n    raise ImportError('too old')\nHERE",
        "import jax\nassert jax.__version_info__ >= (0, 4)\nHERE",
        "import jax\ndef count():\n    return jax.device_count()\nif count():\n    HERE",
        "import sys\nif 'torch' in sys.modules:\n    HERE",
        "import jax\nx = (HERE, hasattr(jax, 'x') and 1)",
        "import contextlib\nwith contextlib.suppress(ValueError):\n    from jax import x\n    HERE",
        "import jax, pytest\n@pytest.mark.skipif(jax.device_count() < 8, reason='')\ndef f():\n    HERE",
        "import jax, pytest\n@pytest.mark.skipif(jax.__version__ < '0.5', reason='too old')\ndef f():\n    HERE",
        "import jax, unittest\n@unittest.skipUnless(jax.__version_info__ >= (0, 5), '')\ndef f():\n    HERE",
    ],
)
def test_other_questions(program: str) -> None:
    assert not is_gated(program)


def test_a_flag_of_another_module(tmp_path: Path) -> None:
    (tmp_path / "flags.py").write_text("import jax\nNEW = hasattr(jax, 'set_mesh')\nEIGHT = jax.device_count() == 8\n")
    for name, expected in (("NEW", True), ("EIGHT", False)):
        source = f"from flags import {name}\nif {name}:\n    HERE\n"
        path = tmp_path / "main.py"
        path.write_text(source)
        module = Project([str(path), str(tmp_path / "flags.py")]).module_at(str(path))
        assert module is not None
        (node,) = (name for name in module.nodes(ast.Name) if name.id == "HERE")
        assert module.is_compatibility_code(node) == expected
