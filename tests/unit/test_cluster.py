"""Descriptions of clusters: short form, TOML, openb's list of nodes, names, canonical bytes."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.replay import cluster as cluster_module
from ganger.replay.cluster import (
    NO_LIMIT,
    NOTHING,
    UNLIMITED,
    Amount,
    ClusterSpec,
    NodeSpec,
    QueueSpec,
    TaintSpec,
    from_canonical,
    open_cluster,
    parse_nodes,
)
from ganger.replay.traces.source import InputError

REPO = Path(__file__).resolve().parents[2]
OPENB_NODES = REPO.parent / "shared" / "traces" / "openb" / "nodes.csv.gz"

Open = Callable[..., ClusterSpec]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Writes a text (or bytes) into a file of the given name and opens it as a cluster."""

    def open_text(text: str | bytes, name: str = "c.toml") -> ClusterSpec:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return open_cluster(path)

    return open_text


# --- short form -----------------------------------------------------------------------------


def test_short_form() -> None:
    cluster = parse_nodes("264x8,271x4")
    assert cluster.nodes == (
        NodeSpec(264, 8, "card", 81_920, 8, 96_000, 1_048_576, 110),
        NodeSpec(271, 4, "card", 81_920, 4, 48_000, 524_288, 110),
    )
    assert cluster.queues == ()
    assert (cluster.node_count, cluster.card_count) == (535, 3_196)
    names = [name for name, _ in cluster.expand()]
    assert (names[0], names[263], names[264], names[-1]) == (
        "node-0001",
        "node-0264",
        "node-0265",
        "node-0535",
    )


def test_short_form_of_one_big_node_binds_nothing() -> None:
    (spec,) = parse_nodes(" 1x338 ").nodes
    assert (spec.pod_slots, spec.cpu_milli) == (338, 338 * 12_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the part '' of '' is not NODESxCARDS; write for example 264x8,271x4"),
        ("8", "the part '8' of '8' is not"),
        ("2x8,", "the part '' of '2x8,' is not"),
        ("2x8,3*4", "the part '3*4' of '2x8,3*4' is not"),
        ("2x8,-3x4", "the part '-3x4' of"),
        ("2x8,x4", "the part 'x4' of"),
        ("٣x8", "the part '٣x8' of"),
        ("0x8", "the part '0x8' of '0x8' is out of bounds; give 1 to 1000000 nodes"),
        ("2x0", "the part '2x0' of '2x0' is out of bounds"),
        ("1000001x1", "out of bounds"),
        ("600000x1,600000x1", "the cluster has 1200000 nodes; give 1 to 1000000"),
    ],
)
def test_short_form_errors(text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        parse_nodes(text)
    assert str(error.value).startswith("nodes: ")
    assert words in str(error.value)


groups = st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 16)), min_size=1, max_size=5)


@settings(deadline=None)
@given(groups)
def test_names_are_unique_and_sort_as_nodes_are_numbered(groups: list[tuple[int, int]]) -> None:
    cluster = parse_nodes(",".join(f"{count}x{cards}" for count, cards in groups))
    nodes = cluster.expand()
    names = [name for name, _ in nodes]
    assert names == sorted(set(names))
    assert [spec.cards for _, spec in nodes] == [cards for n, cards in groups for _ in range(n)]
    assert from_canonical(cluster.canonical()) == cluster


# --- TOML -----------------------------------------------------------------------------------


def test_example_of_the_documentation(opened: Open) -> None:
    indented = re.findall(r"^    (.*)$|^$", cluster_module.__doc__ or "", re.MULTILINE)
    cluster = opened("\n".join(indented))
    train, login = cluster.nodes
    assert train == NodeSpec(
        32,
        8,
        "A100",
        81_920,
        4,
        128_000,
        2_097_152,
        110,
        (("zone", "a"),),
        (TaintSpec("dedicated", "train", "NoSchedule"),),
        ("spine-1", "rack-3"),
        "train",
    )
    assert login == NodeSpec(2, 0, "", 0, 0, 12_000, 131_072, 110, names=("login-a", "login-b"))
    assert cluster.queues == (
        QueueSpec(
            "research",
            "all",
            3,
            Amount(64, 512_000, 4_194_304),
            Amount(128, UNLIMITED, UNLIMITED),
        ),
        QueueSpec("all", "", 1, NOTHING, NO_LIMIT),
    )
    assert [name for name, _ in cluster.expand()][30:] == [
        "train-0031",
        "train-0032",
        "login-a",
        "login-b",
    ]
    assert from_canonical(cluster.canonical()) == cluster


def test_numbers_go_on_within_a_prefix(opened: Open) -> None:
    cluster = opened(
        "[[nodes]]\ncount=2\ncards=8\n"
        '[[nodes]]\ncount=1\ncards=1\nname_prefix="a"\n'
        "[[nodes]]\ncount=1\ncards=4\n"
    )
    assert [(name, spec.cards) for name, spec in cluster.expand()] == [
        ("node-0001", 8),
        ("node-0002", 8),
        ("a-0001", 1),
        ("node-0003", 4),
    ]


def test_taints_as_in_kubectl(opened: Open) -> None:
    taints = 'taints = ["a=b:NoSchedule", "c:NoExecute", "d=:PreferNoSchedule"]'
    (spec,) = opened(f"[[nodes]]\ncount=1\ncards=1\n{taints}\n").nodes
    assert spec.taints == (
        TaintSpec("a", "b", "NoSchedule"),
        TaintSpec("c", "", "NoExecute"),
        TaintSpec("d", "", "PreferNoSchedule"),
    )


ONE = "[[nodes]]\ncount = 1\ncards = 8\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes = 3\n", "nodes: the value is 3, Expected `array`, got `int`"),
        ("", "Object missing required field `nodes`"),
        ("nodes = []\n", "the cluster has 0 nodes"),
        ("hello\n", "this is neither TOML ("),
        (ONE + "card_memory = 1\n", "nodes[0].card_memory: there is no such key; did you mean"),
        (ONE + "xyz = 1\n", "nodes[0].xyz: there is no such key; the keys are cards, count, model"),
        ("node = 1\n" + ONE, "node: there is no such key; did you mean nodes?"),
        (ONE + ONE.replace("8", "true"), "nodes[1].cards: the value is True, Expected `int`"),
        (ONE.replace("8", '"8"'), "nodes[0].cards: the value is '8', Expected `int`, got `str`"),
        (ONE.replace("8", "8.0"), "nodes[0].cards: the value is 8.0, Expected `int`"),
        (ONE.replace("8", "-1"), "nodes[0].cards: the value is -1, Expected `int` >= 0"),
        (ONE.replace("1", "0"), "nodes[0].count: the value is 0, Expected `int` >= 1"),
        (ONE.replace("8", "9" * 30), "nodes[0].cards: the value is 999999999999999999999999999999"),
        ("[[nodes]]\ncount = 1\n", "nodes[0]: Object missing required field `cards`"),
        ("[[nodes]]\ncards = 1\n", "nodes[0]: count and names are both there or both absent"),
        (ONE + 'names = ["a"]\n', "nodes[0]: count and names are both there or both absent"),
        (ONE + "island_cards = 3\n", "nodes[0].island_cards: the value is 3, and the node has 8"),
        (ONE + "island_cards = 0\n", "nodes[0].island_cards: the value is 0, and the node has 8"),
        (ONE.replace("8", "10000") + "island_cards = 1\n", "give islands of 6 cards or more"),
        (ONE + 'model = ""\n', "nodes[0].model: the name is ''"),
        (ONE + 'name_prefix = "a\\n"\n', "nodes[0].name_prefix: the name is 'a\\n'"),
        (ONE + 'topology = ["a", ""]\n', "nodes[0].topology: the name is ''"),
        (ONE + "labels = { a = 1 }\n", "nodes[0].labels"),
        (ONE + 'labels = { "" = "1" }\n', "nodes[0].labels: the name is ''"),
        (ONE + 'taints = ["a"]\n', "nodes[0].taints: the value is 'a'; write KEY=VALUE:EFFECT"),
        (ONE + 'taints = ["a:Never"]\n', "nodes[0].taints: the value is 'a:Never'"),
        (
            '[[nodes]]\nnames = ["a"]\nname_prefix = "a"\ncards = 1\n',
            "nodes[0].name_prefix: names are given; leave it out",
        ),
        ('[[nodes]]\nnames = ["a", "a"]\ncards = 1\n', "two nodes are named 'a'"),
        (ONE + '[[nodes]]\nnames = ["node-0001"]\ncards = 1\n', "two nodes are named 'node-0001'"),
    ],
)
def test_node_errors(opened: Open, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        opened(text)
    assert "c.toml: " in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ("[[queues]]\nweight = 1\n", "queues[0]: Object missing required field `name`"),
        ('[[queues]]\nname = ""\n', "queues[0].name: the name is ''"),
        ('[[queues]]\nname = "a"\n[[queues]]\nname = "a"\n', "queues[1].name: 'a' is there twice"),
        ('[[queues]]\nname = "a"\nweight = 0\n', "queues[0].weight: the value is 0"),
        (
            '[[queues]]\nname = "a"\nparent = "b"\n',
            "queues[0].parent: there is no queue 'b'; add a",
        ),
        ('[[queues]]\nname = "a"\nparent = "a"\n', "queues[0].parent: 'a' leads back to 'a'"),
        (
            '[[queues]]\nname = "a"\nparent = "b"\n[[queues]]\nname = "b"\nparent = "a"\n',
            "queues[0].parent: 'b' leads back to 'a'",
        ),
        (
            '[[queues]]\nname = "a"\nguarantee = { card = 4 }\n',
            "queues[0].guarantee.card: there is no such key; did you mean cards?",
        ),
        (
            '[[queues]]\nname = "a"\nguarantee = { cards = 4 }\ncapability = { cards = 3 }\n',
            "queues[0].guarantee.cards: the value is 4, and its capability 3",
        ),
    ],
)
def test_queue_errors(opened: Open, queues: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        opened(ONE + queues)
    assert words in str(error.value)


def test_toml_bounds(opened: Open, tmp_path: Path) -> None:
    deep = "x = " + "[" * 100_000
    with pytest.raises(InputError, match="neither TOML"):
        opened(deep)
    with pytest.raises(InputError, match="longer than 4194304 bytes"):
        opened(gzip.compress(b"#" * (8 << 20)), "c.toml.gz")
    with pytest.raises(InputError, match="cannot be read"):
        open_cluster(tmp_path / "none.toml")


# --- canonical bytes ------------------------------------------------------------------------


def test_canonical_bytes_tell_clusters_apart(opened: Open) -> None:
    assert parse_nodes("2x8").canonical() == opened(ONE.replace("1", "2")).canonical()
    assert parse_nodes("2x8").canonical() != parse_nodes("1x8,1x8").canonical()
    labels = 'labels = { b = "2", a = "1" }\n', 'labels = { a = "1", b = "2" }\n'
    assert len({opened(ONE + text).canonical() for text in labels}) == 1
    # Written out: these bytes name the input of recorded runs and must not change.
    assert parse_nodes("2x8").canonical() == (
        b'{"nodes":[{"count":2,"cards":8,"model":"card","card_memory_mib":81920,"island_cards":8,'
        b'"cpu_milli":96000,"memory_mib":1048576,"pod_slots":110}]}'
    )


# --- openb ----------------------------------------------------------------------------------

OPENB = "sn,cpu_milli,memory_mib,gpu,model\n"


def test_openb_classes_keep_the_nodes_names(opened: Open) -> None:
    text = f"{OPENB}n-0,64000,262144,2,P100\nn-1,96000,393216,8,G2\nn-2,64000,262144,2,P100\n"
    cluster = opened(gzip.compress(text.encode() + b"n-3,8000,1024,0,\n"), "nodes.csv.gz")
    assert cluster.nodes == (
        NodeSpec(2, 2, "P100", 0, 2, 64_000, 262_144, 1024, names=("n-0", "n-2")),
        NodeSpec(1, 8, "G2", 0, 8, 96_000, 393_216, 1024, names=("n-1",)),
        NodeSpec(1, 0, "", 0, 0, 8_000, 1_024, 1024, names=("n-3",)),
    )
    assert [name for name, _ in cluster.expand()] == ["n-0", "n-2", "n-1", "n-3"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,x,1,1,T4", ":2: column cpu_milli is 'x'; write a whole number"),
        ("a,1,1,-1,T4", ":2: column gpu is '-1'"),
        ("a,1,1,1,", ":2: column model is ''"),
        (",1,1,1,T4", ":2: column sn is ''"),
        ("a,1,1,1", ":2: the row has 4 columns"),
        ("", "the cluster has 0 nodes"),
        ("a,1,1,1,T4\na,1,1,1,T4", "two nodes are named 'a'"),
    ],
)
def test_openb_errors(opened: Open, row: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        opened(OPENB + row + "\n", "nodes.csv")
    assert words in str(error.value)


def test_openb_cluster() -> None:
    if not OPENB_NODES.exists():
        pytest.skip("the list ../shared/traces/openb/nodes.csv.gz is not here")
    cluster = open_cluster(OPENB_NODES)
    assert (cluster.node_count, cluster.card_count, len(cluster.nodes)) == (1_213, 6_212, 15)
    names = sorted(name for name, _ in cluster.expand())
    assert (names[0], names[-1]) == ("openb-node-0000", "openb-node-1212")
