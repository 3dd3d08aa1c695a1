"""The importer: what it writes for an object, and what it does to the import statements."""

from __future__ import annotations

import subprocess
import sys

import pytest
from edits_helpers import at, carry_out, edit_of, edited, refusal

from shardfix.codemod import Fix
from shardfix.edits import DropImport, InsertStatement, MoveImport, Replace, SetArgument, Wrap, named
from shardfix.edits.imports import ALWAYS_LOADED
from shardfix.edits.pen import apply
from shardfix.semantics.module import Module

SPEC = named("jax.sharding.PartitionSpec")
SHARDING = named("jax.sharding.NamedSharding")
SHARD_MAP = named("jax.shard_map")
PCAST = named("jax.lax.pcast")
ARRAY = named("jax.numpy.array")


def spelled(source: str, marker: str) -> str:
    """The text after ``HERE`` is replaced."""
    return edited(source, (Replace, "HERE", marker))


# Names that are there


@pytest.mark.parametrize(
    ("header", "marker", "spelling"),
    [
        ("from jax.sharding import PartitionSpec as P", SPEC, "P"),
        ("from jax.sharding import PartitionSpec as PS", SPEC, "PS"),
        ("from jax.sharding import PartitionSpec", SPEC, "PartitionSpec"),
        ("from jax import P", SPEC, "P"),
        ("import jax\nP = jax.sharding.PartitionSpec", SPEC, "P"),
        ("import jax\nP = jax.P", SPEC, "P"),
        ("import jax\nx = jax.P('a')", SPEC, "jax.P"),
        ("import jax as j\nx = j.sharding.Mesh(a, b)", SPEC, "j.sharding.PartitionSpec"),
        ("from jax import sharding as shd", SPEC, "shd.PartitionSpec"),
        ("import jax.sharding as shd", SPEC, "shd.PartitionSpec"),
        ("from jax import sharding", SHARDING, "sharding.NamedSharding"),
        ("import jax\nfrom jax import sharding", SHARDING, "sharding.NamedSharding"),
        ("import jax\nx = jax.sharding.Mesh(a, b)", SHARDING, "jax.sharding.NamedSharding"),
        ("from jax.sharding import *", SHARDING, "NamedSharding"),
        ("import jax", SHARD_MAP, "jax.shard_map"),
        ("import jax.numpy", SHARD_MAP, "jax.shard_map"),
        ("from jax import shard_map", SHARD_MAP, "shard_map"),
        ("from jax import shard_map as sm", SHARD_MAP, "sm"),
        ("import jax\nfrom jax import lax", PCAST, "lax.pcast"),
        ("import jax", PCAST, "jax.lax.pcast"),
        ("import jax\nfrom jax.lax import pcast", PCAST, "pcast"),
        ("import jax.numpy as jnp", ARRAY, "jnp.array"),
        ("import jax\nfrom jax import numpy as jnp", ARRAY, "jnp.array"),
        ("import jax", ARRAY, "jax.numpy.array"),
        ("import numpy as np", named("numpy.array"), "np.array"),
        ("import functools", named("functools.partial"), "functools.partial"),
        ("from functools import partial", named("functools.partial"), "partial"),
        ("import jax\nimport jax.experimental.shard", named("jax.experimental.shard.x"), "jax.experimental.shard.x"),
        (
            "try:\n    from jax.sharding import PartitionSpec as P\n"
            "except ImportError:\n    from jax.experimental import PartitionSpec as P",
            SPEC,
            "P",
        ),
    ],
)
def test_what_is_bound_is_used(header, marker, spelling):
    for use in ("HERE\n", "\n\ndef f():\n    return HERE\n"):
        assert spelled(f"{header}\n{use}", marker) == f"{header}\n{use.replace('HERE', spelling)}"


def test_modules_said_to_be_loaded_are():
    code = f"import jax, sys; sys.exit(bool({set(ALWAYS_LOADED)!r} - set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_local_import_is_used_where_it_runs_before():
    source = "def f():\n    from jax.sharding import PartitionSpec as P\n    return HERE\n"
    assert spelled(source, SPEC) == source.replace("HERE", "P")
    nested = (
        "def f():\n    from jax.sharding import PartitionSpec as P\n    def g():\n        return HERE\n    return g\n"
    )
    assert spelled(nested, SPEC) == nested.replace("HERE", "P")


@pytest.mark.parametrize(
    "source",
    [
        # under a condition
        "import jax\ntry:\n    from jax.sharding import NamedSharding\nexcept ImportError:\n    pass\nx = HERE\n",
        "import jax\nif x:\n    from jax.sharding import NamedSharding\nx = HERE\n",
        # for the type checker only
        "import jax\nif TYPE_CHECKING:\n    from jax.sharding import NamedSharding\ndef f():\n    return HERE\n",
        # in another function
        "import jax\ndef g():\n    from jax.sharding import NamedSharding\ndef f():\n    return HERE\n",
        # after the use
        "import jax\nx = HERE\nfrom jax.sharding import NamedSharding\n",
        # deleted
        "import jax\nfrom jax.sharding import NamedSharding\ndel NamedSharding\nx = HERE\n",
        # rebound
        "import jax\nfrom jax.sharding import NamedSharding\nNamedSharding = 1\nx = HERE\n",
        # hidden by a parameter, a local, a later local, a comprehension's variable, a loop's, a function, a class
        "import jax\nfrom jax.sharding import NamedSharding\ndef f(NamedSharding):\n    return HERE\n",
        "import jax\nfrom jax.sharding import NamedSharding\ndef f():\n    NamedSharding = 1\n    return HERE\n",
        "import jax\nfrom jax.sharding import NamedSharding\ndef f():\n    x = HERE\n    NamedSharding = 1\n",
        "import jax\nfrom jax.sharding import NamedSharding\nx = [HERE for NamedSharding in y]\n",
        "import jax\nfrom jax.sharding import NamedSharding\nf = lambda NamedSharding: HERE\n",
        "import jax\nfrom jax.sharding import NamedSharding\ndef f():\n    for NamedSharding in x:\n        HERE\n",
        "import jax\nfrom jax.sharding import NamedSharding\nclass A:\n    NamedSharding = 1\n    x = HERE\n",
        "import jax\nfrom jax.sharding import NamedSharding\ndef f():\n    def NamedSharding(): pass\n    return HERE\n",
        # bound elsewhere by global
        "import jax\nfrom jax.sharding import NamedSharding\ndef g():\n    global NamedSharding\n    NamedSharding = 1\n"
        "def f():\n    return HERE\n",
    ],
)
def test_what_is_not_surely_meant_is_not_used(source):
    result = carry_out(source, (Replace, "HERE", SHARDING))
    if result.refused:
        assert "free" in result.refused[0][1]
        return
    line = next(line for line in result.source.splitlines() if "HERE" not in line and line not in source.splitlines())
    assert "jax.sharding" in line, result.source  # spelled through jax, or imported anew
    use = result.source.splitlines()[-1 if "x = HERE\nfrom" not in source else 2]
    if "HERE" in source.splitlines()[-1]:
        new_import = "from jax.sharding import NamedSharding" in line and source.count("import NamedSharding") > 0
        assert "jax.sharding.NamedSharding" in use or new_import


def test_class_scope_is_not_seen_from_methods():
    source = "from jax.sharding import NamedSharding\nclass A:\n    NamedSharding = 1\n    def f(self):\n        return HERE\n"
    assert spelled(source, SHARDING) == source.replace("HERE", "NamedSharding")


def test_names_bound_by_the_new_code_itself_are_avoided():
    source = "import jax\nfrom jax.sharding import PartitionSpec as P\nx = f(HERE)\n"
    code = f"lambda P: P + {SPEC}()"
    assert "PartitionSpec()" in spelled(source, code).rpartition("lambda")[2]


# New imports


@pytest.mark.parametrize(
    ("source", "marker", "expected"),
    [
        # merged into what is there, in its style
        (
            "from jax.sharding import Mesh\nx = HERE\n",
            SPEC,
            "from jax.sharding import Mesh, PartitionSpec as P\nx = P\n",
        ),
        (
            "from jax.sharding import Mesh, Sharding  # noqa: E402\nx = HERE\n",
            SHARDING,
            "from jax.sharding import Mesh, NamedSharding, Sharding  # noqa: E402\nx = NamedSharding\n",
        ),
        (
            "from jax.sharding import Sharding, Mesh\nx = HERE\n",
            SHARDING,
            "from jax.sharding import Sharding, Mesh, NamedSharding\nx = NamedSharding\n",
        ),
        (
            "from jax.sharding import (\n    Mesh,  # the mesh\n    Sharding,\n)  # noqa\nx = HERE\n",
            SHARDING,
            "from jax.sharding import (\n    Mesh,  # the mesh\n    NamedSharding,\n    Sharding,\n)  # noqa\nx = NamedSharding\n",
        ),
        (
            "from jax.sharding import (\n    Sharding,\n    Mesh\n)\nx = HERE\n",
            SHARDING,
            "from jax.sharding import (\n    Sharding,\n    Mesh,\n    NamedSharding\n)\nx = NamedSharding\n",
        ),
        (
            "from jax.sharding import Mesh, \\\n    Sharding\nx = HERE\n",
            SHARDING,
            "from jax.sharding import Mesh, \\\n    NamedSharding, \\\n    Sharding\nx = NamedSharding\n",
        ),
        (
            "from jax.sharding import (Mesh, Sharding)\r\nx = HERE\r\n",
            SPEC,
            "from jax.sharding import (Mesh, PartitionSpec as P, Sharding)\r\nx = P\r\n",
        ),
        ("from jax import jit\nx = HERE\n", SHARD_MAP, "from jax import jit, shard_map\nx = shard_map\n"),
        ("from jax import jit\nx = HERE\n", PCAST, "from jax import jit, lax\nx = lax.pcast\n"),
        ("from jax.lax import psum\nx = HERE\n", PCAST, "from jax.lax import pcast, psum\nx = pcast\n"),
        # an import that is merged into must run before the use
        (
            "import jax\nx = HERE\nfrom jax.sharding import Mesh\n",
            SPEC,
            "import jax\nfrom jax.sharding import PartitionSpec as P\nx = P\nfrom jax.sharding import Mesh\n",
        ),
        # the name P is taken
        (
            "import jax\nP = 3\nx = HERE\n",
            SPEC,
            "import jax\nfrom jax.sharding import PartitionSpec\nP = 3\nx = PartitionSpec\n",
        ),
        (
            "import jax\ndef g(P): pass\ndef f():\n    return HERE\n",
            SPEC,
            "import jax\nfrom jax.sharding import PartitionSpec\ndef g(P): pass\ndef f():\n    return PartitionSpec\n",
        ),
        (
            "import jax\nfrom other import *\nprint(P)\nx = HERE\n",
            SPEC,
            "import jax\nfrom jax.sharding import PartitionSpec\nfrom other import *\nprint(P)\nx = PartitionSpec\n",
        ),
        # the file has a name for it elsewhere
        (
            "import jax\ndef g():\n    from jax.sharding import PartitionSpec as PS\ndef f():\n    return HERE\n",
            SPEC,
            "import jax\nfrom jax.sharding import PartitionSpec as PS\ndef g():\n    from jax.sharding import PartitionSpec as PS\n"
            "def f():\n    return PS\n",
        ),
        # both names are taken
        (
            "import jax\nP = PartitionSpec = 3\nx = HERE\n",
            SPEC,
            "import jax\nP = PartitionSpec = 3\nx = jax.sharding.PartitionSpec\n",
        ),
        (
            "import os\nNamedSharding = 3\nx = HERE\n",
            SHARDING,
            "import os\nimport jax\nNamedSharding = 3\nx = jax.sharding.NamedSharding\n",
        ),
        ("import os\nlax = 3\nx = HERE\n", PCAST, "import os\nimport jax\nlax = 3\nx = jax.lax.pcast\n"),
        # customary modules
        ("import os\nx = HERE\n", ARRAY, "import os\nimport jax.numpy as jnp\nx = jnp.array\n"),
        ("x = HERE\n", named("numpy.array"), "import numpy as np\n\nx = np.array\n"),
        ("import os\nx = HERE\n", PCAST, "import os\nfrom jax import lax\nx = lax.pcast\n"),
        ("import os\nx = HERE\n", SHARD_MAP, "import os\nimport jax\nx = jax.shard_map\n"),
        (
            "import jax\nx = HERE\n",
            named("functools.partial"),
            "import jax\nfrom functools import partial\nx = partial\n",
        ),
    ],
)
def test_new_names(source, marker, expected):
    assert spelled(source, marker) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Doc."""\n\nfrom __future__ import annotations\n\nimport jax\n', ""),
        ("#!/usr/bin/env python\n# Copyright\nimport os\n\nimport jax\n", "\nx = 1\n"),
        ("import jax\nimport jax.numpy as jnp\nimport numpy as np\n", "from jax.tree_util import tree_map\n"),
        ("import jax\nimport jax.numpy as jnp\nfrom flax import linen as nn\n", "from optax import adam\n\nx = 1\n"),
        ("import jax\nfrom jax import lax\n", "import numpy as np\n"),
        ("import os; import jax\n", ""),
        ("import sys\nsys.path.insert(0, '..')\nimport jax  # noqa: E402\n", "\nfoo()\n"),
        ("import os\nos.environ['XLA_FLAGS'] = '--x'\n\nimport jax\n", "\nfoo()\n"),
        ("import jax\n", "try:\n    import a\nexcept ImportError:\n    a = None\n"),
        ("import jax\n", "if TYPE_CHECKING:\n    from jax.sharding import NamedSharding as N\n"),
    ],
)
def test_where_a_new_import_goes(before, after):
    new = "from jax.sharding import Mesh\n"
    use = "\n\ndef f():\n    return HERE\n"
    result = spelled(f"{before}{after}{use}", named("jax.sharding.Mesh"))
    assert result == f"{before}{new}{after}{use.replace('HERE', 'Mesh')}"


def test_header_of_docstring_alone():
    source = '"""Doc."""\n\nx = HERE\n'
    assert spelled(source, SHARDING) == '"""Doc."""\n\nfrom jax.sharding import NamedSharding\n\nx = NamedSharding\n'
    source = "# Copyright\n\ndef f():\n    return HERE\n"
    assert spelled(source, SHARDING) == (
        "# Copyright\n\nfrom jax.sharding import NamedSharding\n\n\ndef f():\n    return NamedSharding\n"
    )


def test_never_after_the_first_use():
    source = "import jax; x = HERE\nimport numpy\n"
    assert (
        spelled(source, SHARDING)
        == "import jax; from jax.sharding import NamedSharding; x = NamedSharding\nimport numpy\n"
    )
    source = "import os\nx = HERE\nimport jax\n"
    assert (
        spelled(source, SHARDING)
        == "import os\nfrom jax.sharding import NamedSharding\nx = NamedSharding\nimport jax\n"
    )


def test_decorators_and_defaults_run_at_once():
    source = "import os\n@f(HERE)\ndef g(): pass\nimport jax\n"
    result = spelled(source, SHARDING)
    assert result.index("import NamedSharding") < result.index("@f(NamedSharding)")


def test_names_of_several_fixes_are_imported_together():
    module = Module("import jax\n\n\ndef f():\n    return g(a, b)\n")
    fixes = [
        Fix((edit_of(module, (Replace, "a", f"{SHARDING}(mesh, {SPEC}())")),)),
        Fix((edit_of(module, (Replace, "b", f"{SPEC}('x')")),)),
    ]
    result = apply(module, fixes)
    assert result.applied == tuple(fixes)
    assert result.source == (
        "import jax\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n\n\n"
        "def f():\n    return g(NamedSharding(mesh, P()), P('x'))\n"
    )


def test_names_of_two_modules_at_once():
    source = "import os\nfrom jax.sharding import Mesh\nfrom jax.lax import psum\nx = f(HERE)\n"
    assert spelled(source, f"{SPEC}({PCAST})") == (
        "import os\nfrom jax.sharding import Mesh, PartitionSpec as P\nfrom jax.lax import pcast, psum\nx = f(P(pcast))\n"
    )


def test_an_import_serves_an_earlier_use_of_a_later_fix():
    module = Module("import os\nx = a\n\n\ndef f():\n    return b\nimport sys\nimport jax\n")
    fixes = [Fix((edit_of(module, (Replace, text, SPEC)),)) for text in ("b", "a")]
    result = apply(module, fixes)
    lines = result.source.splitlines()
    assert lines.index("from jax.sharding import PartitionSpec as P") < lines.index("x = P")


def test_a_refused_fix_asks_for_no_import():
    module = Module("import jax\nx = f(a)\n")
    fix = Fix((edit_of(module, (Replace, "a", SPEC)), SetArgument(at(module, "a"), "k", "1")))
    assert apply(module, [fix]).source == module.source


# Files that import jax in functions only


def test_local_imports_stay_local():
    source = "import os\n\n\ndef f():\n    import jax\n    return jax.jit(HERE)\n"
    expected = source.replace("HERE", "P").replace(
        "    import jax\n", "    import jax\n    from jax.sharding import PartitionSpec as P\n"
    )
    assert spelled(source, SPEC) == expected
    source = "def f():\n    from jax.sharding import Mesh\n    return HERE\n"
    assert spelled(source, SPEC) == source.replace("Mesh", "Mesh, PartitionSpec as P").replace("HERE", "P")
    source = 'def g():\n    import jax\n\n\ndef f(x):\n    """Doc."""\n    return HERE\n'
    assert spelled(source, SPEC) == source.replace(
        "    return HERE", "    from jax.sharding import PartitionSpec as P\n    return P"
    )


def test_optional_jax():
    source = "try:\n    import jax\nexcept ImportError:\n    jax = None\n\n\ndef f(x):\n    return jax.a(HERE)\n"
    assert spelled(source, SPEC) == source.replace(
        "    return jax.a(HERE)", "    from jax.sharding import PartitionSpec as P\n    return jax.a(P)"
    )
    # The code at the place relies on the name already.
    assert edited(source, (Replace, "jax.a", SHARD_MAP)) == source.replace("jax.a", "jax.shard_map")
    assert "some paths only" in refusal(source + "x = OTHER\n", (Replace, "OTHER", SPEC))


# Moved names


def moved(source: str, statement: str, name: str, to: str) -> str:
    return edited(source, (MoveImport, statement, name, to))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from jax.experimental.shard_map import shard_map\n", "from jax import shard_map\n"),
        (
            "from jax.experimental.shard_map import shard_map as sm  # noqa\n",
            "from jax import shard_map as sm  # noqa\n",
        ),
        (
            "from jax.experimental.shard_map import (\n    shard_map,  # why\n)\n",
            "from jax import (\n    shard_map,  # why\n)\n",
        ),
        (
            "from jax.experimental.shard_map import shard_map, other\nx = 1\n",
            "from jax.experimental.shard_map import other\nfrom jax import shard_map\nx = 1\n",
        ),
        (
            "if x:\r\n\tfrom jax.experimental.shard_map import other, shard_map  # why\r\n\ty = 1\r\n",
            "if x:\r\n\tfrom jax.experimental.shard_map import other  # why\r\n\tfrom jax import shard_map\r\n\ty = 1\r\n",
        ),
        # merged with an import that runs before all uses
        (
            "from jax import lax\nfrom jax.experimental.shard_map import shard_map\nshard_map()\n",
            "from jax import lax, shard_map\nshard_map()\n",
        ),
        (
            "from jax.experimental.shard_map import shard_map, other\nfrom jax import (\n    lax,\n)\nshard_map()\n",
            "from jax.experimental.shard_map import other\nfrom jax import (\n    lax,\n    shard_map,\n)\nshard_map()\n",
        ),
        # not with one that comes too late, nor where a comment would go, nor in a block
        (
            "from jax.experimental.shard_map import shard_map\nshard_map()\nfrom jax import lax\n",
            "from jax import shard_map\nshard_map()\nfrom jax import lax\n",
        ),
        (
            "from jax import lax\nfrom jax.experimental.shard_map import shard_map  # why\nshard_map()\n",
            "from jax import lax\nfrom jax import shard_map  # why\nshard_map()\n",
        ),
        (
            "from jax import lax\ntry:\n    from jax.experimental.shard_map import shard_map\nexcept ImportError:\n    pass\n",
            "from jax import lax\ntry:\n    from jax import shard_map\nexcept ImportError:\n    pass\n",
        ),
        (
            "import os; from jax.experimental.shard_map import shard_map, other; x = 1\n",
            "import os; from jax.experimental.shard_map import other; from jax import shard_map; x = 1\n",
        ),
    ],
)
def test_move_import(source, expected):
    module = Module(source)
    statement = next(module.text(name.statement) for name in module.imports if name.bound in ("shard_map", "sm"))
    assert moved(source, statement, "shard_map", "jax.shard_map") == expected


def test_move_import_to_another_name():
    statement = "from jax.experimental.pjit import pjit"
    assert moved(statement + "\npjit()\n", statement, "pjit", "jax.jit") == "from jax import jit as pjit\npjit()\n"
    statement = "from jax.experimental.pjit import pjit as jit"
    assert moved(statement + "\njit()\n", statement, "pjit", "jax.jit") == "from jax import jit\njit()\n"


def test_several_names_move_to_several_modules():
    statement = "from jax.old import a, b, c as d"
    assert edited(
        statement + "\nx = a, b, d\n",
        (MoveImport, statement, "a", "jax.new.a"),
        (MoveImport, statement, "b", "jax.new.b2"),
        (MoveImport, statement, "c", "jax.newer.c"),
    ).splitlines()[-3:] == ["from jax.new import a, b2 as b", "from jax.newer import c as d", "x = a, b, d"]


def test_moves_of_two_fixes():
    statement = "from jax.old import a, b"
    module = Module(statement + "\n")
    fixes = [Fix((edit_of(module, (MoveImport, statement, name, f"jax.{name}")),)) for name in "ab"]
    assert apply(module, fixes).source == "from jax import a, b\n"
    clash = [*fixes[:1], Fix((edit_of(module, (MoveImport, statement, "a", "jax.new.a")),))]
    assert apply(module, clash).postponed == tuple(clash[1:])


def test_a_moved_name_is_used_for_its_new_object():
    source = "from jax.experimental.shard_map import shard_map\nx = HERE\n"
    result = edited(
        source,
        (MoveImport, source.splitlines()[0], "shard_map", "jax.shard_map"),
        (Replace, "HERE", SHARD_MAP),
    )
    assert result == "from jax import shard_map\nx = shard_map\n"


def test_new_names_join_a_moved_statement():
    source = "from jax.interpreters.pxla import Mesh\nx = Mesh(HERE)\n"
    result = edited(source, (MoveImport, source.splitlines()[0], "Mesh", "jax.sharding.Mesh"), (Replace, "HERE", SPEC))
    assert result == "from jax.sharding import Mesh, PartitionSpec as P\nx = Mesh(P)\n"


def test_move_import_refuses_other_statements():
    assert "no from-import" in refusal("import a.b\n", (MoveImport, "import a.b", "b", "c.b"))
    assert "not imported" in refusal("from a import b\n", (MoveImport, "from a import b", "c", "d.c"))


# Dropped names


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os\nfrom a import b\nx = b\n", "import os\nx = HERE\n"),
        ("from a import b, c\nx = b\n", "from a import c\nx = HERE\n"),
        ("from a import (\n    b,  # why\n    c,\n)\nx = b\n", "from a import (\n    c,\n)\nx = HERE\n"),
        ("from a import (\n    c,\n    b\n)\nx = b\n", "from a import (\n    c\n)\nx = HERE\n"),
        ("from a import c, \\\n    b\nx = b\n", "from a import c\nx = HERE\n"),
        ("import b\nx = b\n", "x = HERE\n"),
        ("import b, c\nx = b\n", "import c\nx = HERE\n"),
        ("def f():\n    from a import b\n    x = b\n", "def f():\n    x = HERE\n"),
        ("import c; from a import b\nx = b\n", "import c\nx = HERE\n"),
        ("from a import b; import c\nx = b\n", "import c\nx = HERE\n"),
        ("from a import b  # noqa: E402\nx = b\n", "x = HERE\n"),
        ("from a import b\nx = b\ns = 'b'\n", "x = HERE\ns = 'b'\n"),
        ("from a import b\nx = b\ndef f(b):\n    return b\n", "x = HERE\ndef f(b):\n    return b\n"),
    ],
)
def test_drop_import(source, expected):
    module = Module(source)
    statement = next(module.text(name.statement) for name in module.imports if name.bound == "b")
    assert edited(source, (DropImport, statement, "b"), (Replace, "b", "HERE")) == expected


@pytest.mark.parametrize(
    "rest",
    [
        "y = b\n",
        "__all__ = ['b']\n",
        "__all__ = []\n__all__ += ['b']\n",
        "def f(x: 'b.c'): pass\n",
        "def f(x: 'list[b]') -> None: pass\n",
        "def f() -> 'b': pass\n",
        "y: 'b' = 1\n",
        "del b\n",
        "def f():\n    global b\n    b = 1\n",
        "class A:\n    b = b\n",
    ],
)
def test_what_is_needed_is_not_dropped(rest):
    source = f"from a import b\nx = b\n{rest}"
    result = carry_out(source, (DropImport, "from a import b", "b"), (Replace, "b", "HERE"))
    assert result.source == source.replace("x = b", "x = HERE", 1)
    assert result.applied  # that is no refusal


def test_imports_that_are_there_for_others_are_not_dropped():
    for source, path in [
        ("from a import b  # noqa: F401\nx = b\n", "module.py"),
        ("from a import b\nx = b\n", "package/__init__.py"),
        ("try:\n    from a import b\nexcept ImportError:\n    pass\nx = b\n", "module.py"),
        ("if c:\n    from a import b\nx = b\n", "module.py"),
    ]:
        result = edited(source, (DropImport, "from a import b", "b"), (Replace, "b", "HERE"), path=path)
        assert result == source.replace("x = b", "x = HERE")


def test_the_only_statement_of_a_block_becomes_pass():
    source = "def f():\n    from a import b\n"
    assert edited(source, (DropImport, "from a import b", "b")) == "def f():\n    pass\n"


@pytest.mark.parametrize("separator", [", ", "\nimport "])
def test_the_first_of_several_modules_that_go_still_binds_the_package(separator: str) -> None:
    source = f"import a.b{separator}a.c\na.b.X\na.c.X\n"
    first = "import a.b" if "\n" in separator else "import a.b, a.c"
    second = "import a.c" if "\n" in separator else first
    result = edited(
        source,
        (DropImport, first, "a"),
        (DropImport, second, "a"),
        (Replace, "a.b.X", "a.X"),
        (Replace, "a.c.X", "a.Y"),
    )
    assert result == "import a\na.X\na.Y\n"
    result = edited(f"{source}import a\n", (DropImport, first, "a"), (Replace, "a.b.X", "1"))
    assert "a.c" in result


def test_a_module_is_not_needed_where_its_package_is_imported_before_it_is_read() -> None:
    source = "import a.b\nimport a\na.b.X\n"
    assert edited(source, (DropImport, "import a.b", "a"), (Replace, "a.b.X", "a.X")) == "import a\na.X\n"


def test_a_name_that_the_new_code_reads_is_not_dropped():
    source = "from jax.sharding import PartitionSpec as P\nx = P\n"
    result = edited(source, (DropImport, source.splitlines()[0], "P"), (Replace, "P", f"f({SPEC})"))
    assert result == source.replace("x = P", "x = f(P)")
    result = edited(source, (DropImport, source.splitlines()[0], "P"), (Replace, "P", "P + 1"))
    assert result == source.replace("x = P", "x = P + 1")


@pytest.mark.parametrize(
    ("statement", "other", "is_loaded"),
    [
        ("from jax.experimental import pjit", "jax.experimental.pjit.pjit(f)", True),
        ("from jax.experimental.pjit import pjit", "jax.experimental.pjit.pjit(f)", True),
        ("from jax.experimental import pjit", "jax.experimental.multihost_utils.f()", False),
        ("from jax.experimental import PartitionSpec", "jax.experimental.pjit.pjit(f)", False),
    ],
)
def test_a_module_that_is_used_by_its_full_name_stays_loaded(statement: str, other: str, is_loaded: bool) -> None:
    bound = statement.split()[-1]
    result = edited(
        f"import jax\n{statement}\nx = {bound}.HERE\n{other}\n",
        (DropImport, statement, bound),
        (Replace, f"{bound}.HERE", "1"),
    )
    assert statement not in result
    again = "import jax.experimental.pjit\n"
    assert (again in result) == is_loaded
    with_alias = edited(
        f"import jax as j\n{statement}\nx = {bound}.HERE\nj.{other[4:]}\n",
        (DropImport, statement, bound),
        (Replace, f"{bound}.HERE", "1"),
    )
    assert (statement in with_alias) == is_loaded  # a new import would bind jax, which nothing reads
    source = f"import jax\n{again}{statement}\nx = {bound}.HERE\n{other}\n"
    assert statement not in edited(source, (DropImport, statement, bound), (Replace, f"{bound}.HERE", "1"))


def test_dropping_an_imported_submodule():
    statement = "import jax.experimental.shard_map"
    source = f"import jax\n{statement}\nx = jax.experimental.shard_map.shard_map(jax)\n"
    request = (DropImport, statement, "jax.experimental.shard_map")
    old = "jax.experimental.shard_map.shard_map"
    assert edited(source, request, (Replace, old, SHARD_MAP)) == "import jax\nx = jax.shard_map(jax)\n"
    assert edited(source, request) == source
    alone = source.replace("import jax\n", "", 1)
    assert edited(alone, request, (Replace, old, SHARD_MAP)) == "import jax\nx = jax.shard_map(jax)\n"


def test_statements_to_insert_are_spelled_too():
    source = "import jax\ndef f():\n    return g()\n"
    assert edited(source, (InsertStatement, "return g()", f"s = {SPEC}()")) == (
        "import jax\nfrom jax.sharding import PartitionSpec as P\ndef f():\n    s = P()\n    return g()\n"
    )


def test_wrapped_code_is_spelled_too():
    source = "import jax.numpy as jnp\nx = y\n"
    assert edited(source, (Wrap, "y", f"{ARRAY}([", "])")) == "import jax.numpy as jnp\nx = jnp.array([y])\n"


# Traps that peers fell into


def test_the_name_is_bound_by_another_module():
    source = "import jax\nfrom jax.experimental.shard_map import shard_map\nx = shard_map\ny = HERE\n"
    assert spelled(source, SHARD_MAP) == source.replace("HERE", "jax.shard_map")
    source = source.replace("import jax\n", "from jax import jit\n")
    result = spelled(source, SHARD_MAP)
    assert "x = shard_map\n" in result
    assert "import shard_map, " not in result
    assert result.count("import shard_map\n") == 1


def test_an_import_after_a_try_block_is_seen():
    source = (
        "import os\ntry:\n    import a\nexcept ImportError:\n    a = None\nfrom jax.sharding import Mesh\nx = HERE\n"
    )
    assert spelled(source, SPEC) == source.replace("Mesh", "Mesh, PartitionSpec as P").replace("HERE", "P")


def test_an_alias_is_used_rather_than_a_second_name():
    source = "from jax import shard_map as smap\nx = HERE\n"
    assert spelled(source, SHARD_MAP) == source.replace("HERE", "smap")
