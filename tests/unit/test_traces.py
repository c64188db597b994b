"""Readers of traces: what a good line means, what a bad line says, and the real traces' counts."""

import gzip
import hashlib
import io
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.replay.traces.detect import open_trace
from ganger.replay.traces.fields import (
    NS_PER_S,
    SECONDS_MAX,
)
from ganger.replay.traces.model import STAYS_NS, Trace, TraceJob, TracePods
from ganger.replay.traces.native import write_native
from ganger.replay.traces.source import LINE_BYTES_MAX, InputError, Source, read_source

REPO = Path(__file__).resolve().parents[2]
TRACES = REPO.parent / "shared" / "traces"
SAMPLE = REPO / "replay" / "samples" / "philly-2000.csv.gz"
S = NS_PER_S

Open = Callable[..., Trace]


def shared(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the trace ../shared/traces/{name} is not here")
    return path


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Writes a text (or bytes) into a file of the given name and opens it as a trace."""

    def open_text(text: str | bytes, name: str = "t.csv", limit: int | None = None) -> Trace:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return open_trace(path, limit)

    return open_text


def cards(count: int, each: int) -> TracePods:
    return TracePods(count, each)


# --- SWF ------------------------------------------------------------------------------------


def swf_line(**values: object) -> str:
    """A job line; keywords f1 to f18 replace the fields of a plain job."""
    fields = "1 10 -1 60 4 -1 -1 4 100 -1 1 7 -1 -1 2 -1 -1 -1".split()
    for name, value in values.items():
        fields[int(name[1:]) - 1] = str(value)
    return " ".join(fields)


def test_swf_job(opened: Open) -> None:
    text = f"; Donor: Malin\n; MaxProcs:  128 (of 130)\n\n   {swf_line()}  \n"
    trace = opened(text, "log.swf")
    assert (trace.format, trace.name, trace.processors) == ("swf", "log.swf", 128)
    assert trace.jobs == [TraceJob("1", 10 * S, 60 * S, 100 * S, "2", "7", (cards(1, 4),), 1)]
    assert trace.skipped == {}
    assert trace.queues() == ["2"]


@pytest.mark.parametrize(
    ("values", "field", "value"),
    [
        ({"f8": -1}, "pods", (cards(1, 4),)),  # used stands in for requested
        ({"f8": 6}, "pods", (cards(1, 6),)),
        ({"f9": -1}, "estimate_ns", 0),
        ({"f4": 0}, "run_ns", 0),
        ({"f2": "10.25"}, "submit_ns", 10_250_000_000),
        ({"f12": -1}, "user", ""),
        ({"f15": -1}, "queue", ""),
        ({"f15": 0}, "queue", "0"),
        ({"f11": 5}, "run_ns", 60 * S),  # cancelled after it ran
    ],
)
def test_swf_fields(opened: Open, values: dict[str, object], field: str, value: object) -> None:
    assert getattr(opened(swf_line(**values), "log.swf").jobs[0], field) == value


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"f5": -1, "f8": -1}, "without processors"),
        ({"f5": 0, "f8": 0}, "without processors"),
        ({"f4": -1}, "without run time"),
        ({"f11": 5, "f4": 0}, "cancelled before they started"),
        ({"f11": 5, "f4": -1, "f5": -1}, "cancelled before they started"),
        ({"f11": 2}, "partial executions"),
        ({"f11": 3}, "partial executions"),
        ({"f11": 4}, "partial executions"),
    ],
)
def test_swf_skips_are_counted(opened: Open, values: dict[str, object], reason: str) -> None:
    skipped = swf_line(f1=9, **values)
    trace = opened(f"{skipped}\n{swf_line()}\n{skipped}\n", "log.swf")
    assert trace.skipped == {reason: 2}
    assert [(job.id, job.row) for job in trace.jobs] == [("1", 2)]
    with pytest.raises(InputError, match=rf"no job \(passed over: 1 {reason}\)"):
        opened(skipped, "log.swf")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"f2": "x"}, "column 2 (submit time) is 'x'; write seconds"),
        ({"f2": -1}, "column 2 (submit time) is '-1'"),
        ({"f4": "1e3"}, "column 4 (run time) is '1e3'"),
        ({"f5": "4.5"}, "column 5 (processors used) is '4.5'"),
        ({"f8": 10**9}, "column 8 (processors requested) is '1000000000'"),
        ({"f9": "?"}, "column 9 (time requested) is '?'"),
        ({"f11": "ok"}, "column 11 (status) is 'ok'"),
        ({"f12": "#"}, "column 12 (user) is '#'"),
        ({"f15": "q" * 300}, "column 15 (queue) is 'qqq"),
        ({"f1": "#1"}, "column 1 (job) is '#1'"),
        ({"f18": ""}, "the line has 17 fields"),
        ({"f18": "-1 -1"}, "the line has 19 fields"),
    ],
)
def test_swf_errors(opened: Open, values: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as error:
        opened(f"; head\n{swf_line(f1=2)}\n{swf_line(**values)}\n", "log.swf")
    assert "log.swf:3: " in str(error.value)
    assert words in str(error.value)


def test_swf_header_in_any_encoding(opened: Open) -> None:
    assert len(opened("; Universität\n".encode("latin-1") + swf_line().encode(), "a.SWF").jobs) == 1


# --- Philly ---------------------------------------------------------------------------------

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def test_philly_jobs_in_order_of_submission(opened: Open) -> None:
    trace = opened(
        PHILLY
        + "2017-10-09 07:01:55,66.0,12,792.0,b\n"
        + "2017-10-09 06:13:03,2951.0,1,2951.0,a\n"
        + "2017-10-09 07:01:55,5.0,16,80.0,a\n"
    )
    late = 1_507_532_515 * S
    assert trace.format == "philly"
    assert trace.jobs == [
        TraceJob("2", late - 2932 * S, 2951 * S, 0, "a", "", (cards(1, 1),), 2),
        TraceJob("1", late, 66 * S, 0, "b", "", (cards(1, 8), cards(1, 4)), 1),
        TraceJob("3", late, 5 * S, 0, "a", "", (cards(2, 8),), 3),
    ]
    assert trace.queues() == ["a", "b"]


def test_philly_skips_are_counted(opened: Open) -> None:
    good = "2017-10-09 07:01:55,0,1,0,a\n"
    trace = opened(PHILLY + good.replace(",1,", ",0,") + good.replace(",0,", ",-3,", 1) + good)
    assert trace.skipped == {"without GPUs": 1, "with a negative duration": 1}
    assert [(job.id, job.run_ns) for job in trace.jobs] == [("3", 0)]


def test_philly_without_cluster(opened: Open) -> None:
    trace = opened("timestamp,duration,num_gpus\n2017-10-09 07:01:55,1,1\n")
    assert trace.jobs[0].queue == ""
    assert trace.queues() == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("2017-13-09 07:01:55,1,1,1,a", "column timestamp is '2017-13-09 07:01:55'; write a UTC"),
        ("2017-10-09 07:01:55,,1,1,a", "column duration is ''; write seconds"),
        ("2017-10-09 07:01:55,1,1.5,1,a", "column num_gpus is '1.5'"),
        ("2017-10-09 07:01:55,1,-1,1,a", "column num_gpus is '-1'"),
        ("2017-10-09 07:01:55,1,1,1,#a", "column cluster is '#a'"),
        ("2017-10-09 07:01:55,1,1,1", "the row has 4 columns, the header 5"),
        ('2017-10-09 07:01:55,1,1,1,"a', "the quotes of the row do not match"),
    ],
)
def test_philly_errors(opened: Open, row: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        opened(f"{PHILLY}2017-10-09 07:01:55,1,1,1,a\n\n{row}\n")
    assert "t.csv:4: " in str(error.value)
    assert words in str(error.value)


# --- openb ----------------------------------------------------------------------------------

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)


@pytest.mark.parametrize(
    ("row", "submit_ns", "run_ns", "pods"),
    [
        ("p,12000,16384,1,1000,,LS,Running,5,25,9", 5, 16, TracePods(1, 1, 0, 12000, 16384)),
        ("p,6000,12288,1,460,,LS,Running,5,25,5", 5, 20, TracePods(1, 0, 460, 6000, 12288)),
        ("p,1,2,8,1000,G2|T4|G2,BE,Failed,5,25,5", 5, 20, TracePods(1, 8, 0, 1, 2, ("G2", "T4"))),
        ("p,1,2,0,0,,LS,Running,5,25,5", 5, 20, TracePods(1, 0, 0, 1, 2)),
        ("p,1,2,1,1000,,LS,Pending,5,25,", 5, 20, TracePods(1, 1, 0, 1, 2)),  # never scheduled
        ("p,1,2,1,1000,,LS,Running,5,,5", 5, STAYS_NS, TracePods(1, 1, 0, 1, 2)),
    ],
)
def test_openb_pod(opened: Open, row: str, submit_ns: int, run_ns: int, pods: TracePods) -> None:
    trace = opened(OPENB + row)
    run_ns = run_ns if run_ns == STAYS_NS else run_ns * S
    assert trace.format == "openb"
    assert trace.jobs == [TraceJob("p", submit_ns * S, run_ns, 0, "", "", (pods,), 1)]


def test_openb_list_without_times(opened: Open) -> None:
    trace = opened("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1,2,1,500\na,1,2,2,1000\n")
    assert [(job.id, job.submit_ns, job.run_ns) for job in trace.jobs] == [
        ("b", 0, STAYS_NS),
        ("a", 0, STAYS_NS),
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("p,1,2,2,500,,,,5,25,5", "column gpu_milli is '500'; ask for 1 to 999 milli of one GPU"),
        ("p,1,2,1,0,,,,5,25,5", "column gpu_milli is '0'"),
        ("p,1,2,1,1001,,,,5,25,5", "column gpu_milli is '1001'"),
        ("p,x,2,1,1000,,,,5,25,5", "column cpu_milli is 'x'; write a whole number from 0"),
        ("p,1,-2,1,1000,,,,5,25,5", "column memory_mib is '-2'"),
        ("p,1,2,1,1000,,,,5,4,5", "column deletion_time is '4'"),
        ("p,1,2,1,1000,,,,now,4,5", "column creation_time is 'now'"),
        ("p,1,2,1,1000,#|T4,,,5,25,5", "column gpu_spec is '#|T4'"),
        ("#,1,2,1,1000,,,,5,25,5", None),  # a comment, so the trace is empty
    ],
)
def test_openb_errors(opened: Open, row: str, words: str | None) -> None:
    with pytest.raises(InputError) as error:
        opened(OPENB + row)
    assert (f"t.csv:2: {words}" if words else "the trace has no job") in str(error.value)


# --- our own format -------------------------------------------------------------------------

NATIVE = "# ganger trace 1\n"


def test_native_by_hand(opened: Open) -> None:
    trace = opened(
        NATIVE
        + "\n# two jobs\n"
        + "job , submit_s, run_s,estimate_s,queue,user,pods,cards,card_milli,cpu_milli,memory_mib,"
        + "models\n"
        + 'probe, 60.5, 90,,default,"bob, jr",,1,,,,\n'
        + "train-1,0,3600,4000,research,ann,2,8,,96000,1024,A100|H100\n"
        + "train-1,,,,,,1,4,,,,\n"
        + ",,,,,,3,,250,,,\n"
        + ",70,,,,,,,,,,\n"
    )
    assert trace.format == "ganger"
    assert trace.jobs == [
        TraceJob(
            "train-1",
            0,
            3600 * S,
            4000 * S,
            "research",
            "ann",
            (
                TracePods(2, 8, 0, 96000, 1024, ("A100", "H100")),
                TracePods(1, 4),
                TracePods(3, 0, 250),
            ),
            2,
        ),
        TraceJob("probe", 60_500_000_000, 90 * S, 0, "default", "bob, jr", (cards(1, 1),), 1),
        TraceJob("5", 70 * S, STAYS_NS, 0, "", "", (cards(1, 0),), 5),
    ]


def test_native_needs_one_column(opened: Open) -> None:
    assert opened(NATIVE + "submit_s\n3\n1\n").jobs == [
        TraceJob("2", S, STAYS_NS, 0, "", "", (cards(1, 0),), 2),
        TraceJob("1", 3 * S, STAYS_NS, 0, "", "", (cards(1, 0),), 1),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# ganger trace 2\nsubmit_s\n1\n", ":1: the first line is '# ganger trace 2'"),
        (NATIVE, "the header has no column submit_s"),
        (NATIVE + "job,run_s\na,1\n", ":2: the header has no column submit_s"),
        (NATIVE + "submit_s,gpus\n1,1\n", "a column 'gpus' that is unknown or there twice"),
        (NATIVE + "submit_s,submit_s\n1,1\n", "a column 'submit_s' that is unknown or there twice"),
        (NATIVE + "submit_s\n-1\n", ":3: column submit_s is '-1'; write seconds, at least 0"),
        (NATIVE + "submit_s,run_s\n1,-1\n", "column run_s is '-1'"),
        (NATIVE + "submit_s,cards,card_milli\n1,1,5\n", "column card_milli is '5'; ask for whole"),
        (NATIVE + "submit_s,card_milli\n1,1000\n", "column card_milli is '1000'"),
        (NATIVE + "submit_s,pods\n1,0\n", "column pods is '0'; write a whole number from 1"),
        (NATIVE + "submit_s,queue\n1,#q\n", "column queue is '#q'"),
        (NATIVE + "submit_s,models\n1,a|#b\n", "column models is 'a|#b'"),
        (NATIVE + "job,submit_s\na,\n", "column submit_s is ''; write seconds, or put the row"),
        (NATIVE + "job,submit_s\na,1\nb,\n", ":4: column submit_s is ''"),
        (NATIVE + "submit_s,run_s\n1,1\n,2\n", ":4: column run_s is '2'; leave it empty"),
        (NATIVE + "job,submit_s\na,1\nb,1\na,2\n", "rows 1 and 3 both have the job id 'a'"),
        (NATIVE + "job,submit_s\n2,1\n,1\n", "rows 1 and 2 both have the job id '2'"),
        (NATIVE + "submit_s\n", "the trace has no job; give a trace with at least one job"),
    ],
)
def test_native_errors(opened: Open, text: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        opened(text)
    assert words in str(error.value)


names = st.text("aZ09 ,;\"'|.:-_é中", max_size=8).map(str.strip)
groups = st.builds(
    TracePods,
    st.integers(1, 10**6),
    st.integers(0, 10**6),
    st.just(0),
    st.integers(0, 10**9),
    st.integers(0, 1 << 40),
    st.lists(st.sampled_from(["A100", "H100, SXM", '"T4"']), max_size=3, unique=True).map(tuple),
) | st.builds(TracePods, st.integers(1, 9), st.just(0), st.integers(1, 999))
times = st.integers(0, SECONDS_MAX * S)
jobs = st.builds(
    TraceJob,
    names.filter(bool),
    times,
    times | st.just(STAYS_NS),
    times,
    names,
    names,
    st.lists(groups, min_size=1, max_size=3).map(tuple),
    st.just(0),
)


@settings(deadline=None)
@given(st.lists(jobs, min_size=1, max_size=8, unique_by=lambda job: job.id), st.booleans())
def test_native_round_trip(tmp_path_factory: pytest.TempPathFactory, given_jobs, packed) -> None:
    data = write_native(given_jobs)
    path = tmp_path_factory.getbasetemp() / "round.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    row = 1
    expected = []
    for job in given_jobs:
        fields = {name: getattr(job, name) for name in TraceJob.__struct_fields__}
        expected.append(TraceJob(**{**fields, "row": row}))
        row += len(job.pods)
    expected.sort(key=lambda job: (job.submit_ns, job.row))
    assert open_trace(path).jobs == expected


@pytest.mark.parametrize(
    "job",
    [
        TraceJob("", 0, 0, 0, "", "", (cards(1, 1),), 1),
        TraceJob("a\nb", 0, 0, 0, "", "", (cards(1, 1),), 1),
        TraceJob("a", 0, 0, 0, " q", "", (cards(1, 1),), 1),
        TraceJob("a", 0, 0, 0, "", "", (), 1),
        TraceJob("a", 0, 0, 0, "", "", (TracePods(1, 1, models=("x|y",)),), 1),
        TraceJob("a", 0, 0, 0, "", "", (TracePods(1, 1, models=("",)),), 1),
    ],
)
def test_native_cannot_write(job: TraceJob) -> None:
    with pytest.raises(ValueError, match="job "):
        write_native([job])


# --- files ----------------------------------------------------------------------------------


def test_digest_is_of_the_file(opened: Open) -> None:
    plain = (NATIVE + "submit_s\n1\n").encode()
    packed = gzip.compress(plain, mtime=0)
    assert opened(plain).digest == hashlib.sha256(plain).hexdigest()
    trace = opened(packed, "t.csv.gz")
    assert trace.digest == hashlib.sha256(packed).hexdigest()
    assert trace.jobs == opened(plain).jobs


def test_limit_keeps_the_first_submitted(opened: Open) -> None:
    text = NATIVE + "job,submit_s\nc,3\na,1\nb,1\n"
    assert [job.id for job in opened(text, limit=2).jobs] == ["a", "b"]
    assert [job.id for job in opened(text, limit=9).jobs] == ["a", "b", "c"]
    with pytest.raises(InputError, match="limit: the value is 0; give a number of jobs"):
        opened(text, limit=0)


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + NATIVE + "submit_s\n1\n",  # byte order mark
        (NATIVE + "submit_s\n1\n").replace("\n", "\r\n"),
        NATIVE + "submit_s\n1",  # no line end at the end
    ],
)
def test_texts_of_other_systems(opened: Open, text: str) -> None:
    assert [job.submit_ns for job in opened(text).jobs] == [S]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty; give a trace"),
        (b"\n\n", "the file is empty"),
        (b"hello\n", "no known format of traces begins with 'hello'; give an SWF log, a CSV of"),
        (b"sn,cpu_milli,memory_mib,gpu,model\n", "a list of nodes, not a trace; give it as --clu"),
        (gzip.compress(NATIVE.encode(), mtime=0)[:-12], "the gzip data is damaged or cut short"),
        (b"\x1f\x8b\x00\x00", "the gzip data is damaged or cut short"),
        ((NATIVE + "submit_s,queue\n1,").encode() + b"\xff\n", ":3: the line is not utf-8 text"),
        (b"x" * (LINE_BYTES_MAX + 1), f":1: the line is longer than {LINE_BYTES_MAX} bytes"),
    ],
)
def test_unusable_files(opened: Open, data: bytes, words: str) -> None:
    with pytest.raises(InputError) as error:
        opened(data)
    assert words in str(error.value)


def test_damaged_gzip_in_the_middle(opened: Open) -> None:
    rows = "".join(f"{number * 7919 % 10007}\n" for number in range(5000))
    data = bytearray(gzip.compress((NATIVE + "submit_s\n" + rows).encode(), mtime=0))
    data[-6] ^= 1  # the checksum
    with pytest.raises(InputError, match="damaged or cut short"):
        opened(bytes(data))


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.swf: cannot be read \(No such file"):
        open_trace(tmp_path / "nothing.swf")
    with pytest.raises(InputError, match="Is a directory"):
        open_trace(tmp_path)


def test_bounds_of_size(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(b"0123456789")
    assert read_source(path, file_bytes_max=10).data == b"0123456789"
    with pytest.raises(InputError, match="larger than 9 bytes"):
        read_source(path, file_bytes_max=9)
    bomb = Source("bomb", gzip.compress(b"a\n" * 100_000), "")
    with pytest.raises(InputError, match="bomb:501: the text is longer than 1000 bytes"):
        list(bomb.lines(text_bytes_max=1000))
    one_line = Source("bomb", gzip.compress(b"\0" * 10_000_000), "")
    with pytest.raises(InputError, match="bomb:1: the line is longer than"):
        list(one_line.lines())


def test_format_by_name_or_head(opened: Open) -> None:
    assert opened(swf_line(), "a.swf").format == "swf"
    assert opened(swf_line(), "a.txt").format == "swf"
    assert opened("; head\n" + swf_line(), "a.txt").format == "swf"
    assert opened(gzip.compress(swf_line().encode()), "a.swf.gz").format == "swf"
    assert opened(NATIVE + "submit_s\n1\n", "a.swf").format == "ganger"


# --- real traces ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "format_name", "count", "queues", "processors"),
    [
        ("philly/jobs.csv.gz", "philly", 82_247, 15, 0),
        ("swf/KTH-SP2.swf.gz", "swf", 28_481, 0, 100),
        ("swf/CTC-SP2.swf.gz", "swf", 77_199, 0, 338),
        ("openb/pods_default.csv.gz", "openb", 8_152, 0, 0),
        ("openb/pods_multigpu50.csv.gz", "openb", 9_061, 0, 0),
        ("openb/pods_gpuspec33.csv.gz", "openb", 8_152, 0, 0),
    ],
)
def test_real_trace(name: str, format_name: str, count: int, queues: int, processors: int) -> None:
    trace = open_trace(shared(name))
    assert (trace.format, len(trace.jobs), trace.processors) == (format_name, count, processors)
    assert len(trace.queues()) == queues
    assert trace.skipped == {}
    order = [(job.submit_ns, job.row) for job in trace.jobs]
    assert order == sorted(order)
    assert sorted(job.row for job in trace.jobs) == list(range(1, count + 1))


def test_philly_cards() -> None:
    trace = open_trace(shared("philly/jobs.csv.gz"))
    asked = [sum(group.count * group.cards for group in job.pods) for job in trace.jobs]
    assert (asked.count(1), asked.count(12), max(asked)) == (76_627, 7, 128)


def test_sample() -> None:
    trace = open_trace(SAMPLE)
    assert (trace.format, len(trace.jobs), len(trace.queues())) == ("ganger", 2_000, 10)
    assert all(job.run_ns > 0 and job.queue for job in trace.jobs)
    with gzip.GzipFile(fileobj=io.BytesIO(SAMPLE.read_bytes())) as file:
        file.read()
        assert file.mtime == 0


def test_sample_is_what_its_tool_makes() -> None:
    philly = shared("philly/jobs.csv.gz")
    tool = runpy.run_path(str(REPO / "tests" / "tools" / "make_sample.py"))
    # The texts are compared: another zlib may pack the same text into other bytes.
    made = gzip.decompress(tool["make_sample"](philly))
    assert made == gzip.decompress(SAMPLE.read_bytes())


@pytest.mark.parametrize("said", ["4,096", "4.7e3", "1_000", "128x"])
def test_a_header_that_is_no_plain_number_says_nothing(said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    path.write_text(f"; MaxProcs: {said}\n{swf_line()}\n")
    assert open_trace(path).processors == 0


@pytest.mark.parametrize("name", ["a.csv", "a.swf"])
def test_a_carriage_return_swallows_no_job(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    hidden = {"a.csv": "job,submit_s,run_s,cards\n# c\rx,5,1,1\ny,5,1,1\n"}.get(
        name, f"; c\r{swf_line()}\n{swf_line()}\n"
    )
    path.write_bytes((b"# ganger trace 1\n" if name == "a.csv" else b"") + hidden.encode())
    with pytest.raises(InputError, match=r":\d: a carriage return stands inside the line"):
        open_trace(path)
