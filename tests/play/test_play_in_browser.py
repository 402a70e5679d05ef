"""The page to play with, in a real browser: its numbers are the library's, and it can be used."""

import json
import math
import time

import pytest
import torch

from graphprism.play import page
from graphprism.play.simulate import play_graph, simulate, undirected, uniforms
from tests.pairwise import in_turn, quick
from tests.report.browser import Browser, find_browser
from tests.report.test_page_in_browser import CONTRAST, fits

PROGRAM = find_browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs chromium or google-chrome, and neither is on the path")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(PROGRAM, tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "play.html"
    path.write_text(page(), "utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def quiet(browser, address):
    """A page at rest, whose functions can be called."""
    with browser.page(f"{address}#layer=0") as tab:
        yield tab


ORDERINGS = ["degree", "ppr", "degree,ppr", "core", "triangles", "eigenvector", "bfs", "random", "features"]
CASES = [
    *((graph, "degree", 16, 128) for graph in ("caffeine", "cholesterol", "path", "star", "grid", "random")),
    *(("karate", split, 12, 24) for split in ("none", *ORDERINGS)),
    *((graph, "degree,ppr", 2, 24) for graph in ("cholesterol", "random")),
    *((graph, "features", 32, 24) for graph in ("caffeine", "star")),  # more channels than nodes
]


def simulated(tab, make_graph, split, width, layers, seed=3):
    """Curves and sentence of the page."""
    return tab.run(
        f"""(() => {{
          const graph = {make_graph}, split = {json.dumps(split)};
          const found = makeNetworks(graph, {{ split, seed: {seed}, width: {width} }});
          for (let layer = 0; layer < {layers}; layer += 1) for (const name of ["GCN", MRS]) found[name].step();
          const plain = (values) => values.map((value) => (Number.isNaN(value) ? null : value));
          const sentence = certificate(graph, found.relations, split, {width}).sentence;
          return [...["GCN", MRS].flatMap((name) => [plain(found[name].distance), plain(found[name].rank)]), sentence];
        }})()"""
    )


def assert_same(found, expected):
    *curves, sentence = found
    for curve, numbers in zip(
        curves, (expected.gcn.distance, expected.gcn.rank, expected.mrs.distance, expected.mrs.rank), strict=True
    ):
        here = torch.tensor([math.nan if value is None else value for value in curve], dtype=torch.float64)
        torch.testing.assert_close(here, numbers, rtol=0, atol=1e-6, equal_nan=True)
    assert sentence == expected.sentence


QUICK = (CASES[0], CASES[6], CASES[9], CASES[-2])


@pytest.mark.parametrize(
    ("graph", "split", "width", "layers"),
    [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES],
)
def test_numbers_and_sentence_are_those_of_the_library(quiet, graph, split, width, layers):
    found = simulated(quiet, f"GRAPHS[{graph!r}](30, 3)", split, width, layers)
    assert_same(found, simulate(play_graph(graph, 30, 3), split, seed=3, width=width, layers=layers))


@pytest.mark.parametrize(
    ("edges", "num_nodes"),
    [([(0, 1)], 2), ([(0, 1), (2, 3)], 5), ([(0, 1), (1, 2), (2, 0)], 3), ([(0, 1), (2, 3), (3, 4), (4, 2)], 6)],
)
def test_own_graphs_have_the_numbers_of_the_library(quiet, edges, num_nodes):
    graph = f"{{ numNodes: {num_nodes}, edges: {json.dumps(edges)} }}"
    for split in ("degree", "bfs", "none"):
        found = simulated(quiet, graph, split, 8, 16)
        assert_same(found, simulate(undirected(edges, num_nodes), split, seed=3, width=8, layers=16))


def test_generator_is_the_same_in_both_languages(quiet):
    draws = "[[1, 0], [100, 514], [4294967295, 7]].map(([seed, stream]) => [0, 1, 99].map(uniforms(seed, stream)))"
    expected = [[uniforms(*each, 100)[at] for at in (0, 1, 99)] for each in ((1, 0), (100, 514), (4294967295, 7))]
    assert quiet.run(draws) == expected


@in_turn(width=[360, 1280, 800], scheme=["light", "dark"])
def test_fits_and_is_silent(browser, address, width, scheme):
    with browser.page(f"{address}#graph=karate&layer=8", width, scheme=scheme) as tab:
        assert tab.complaints() == []
        assert [url for url in tab.requests() if not url.startswith("file:")] == []
        assert fits(tab)
        assert tab.run("getComputedStyle(document.documentElement).colorScheme") == scheme
        assert tab.run(CONTRAST.replace('".badge', '"p, b, dd, legend, label, output, button, .badge')) >= 4.5
        # both pictures are drawn: some of their pixels are not empty
        drawn = (
            "document.getElementById(id).getContext('2d').getImageData(0, 0, 4000, 4000).data.some((each) => each > 0)"
        )
        assert tab.run(f"['gcn-view', 'mrs-view', 'distance-chart', 'rank-chart'].every((id) => {drawn})")


@pytest.mark.parametrize("width", [1200, 900])
def test_lines_below_the_names_of_networks_are_whole(browser, address, width):
    with browser.page(f"{address}#layer=0", width) as tab:
        lines = "Array.from(document.querySelectorAll('.about'), (each) => each.scrollWidth - each.clientWidth)"
        assert tab.run(lines) == [0, 0]
        tops = "Array.from(document.querySelectorAll('.pair canvas'), (each) => each.getBoundingClientRect().top)"
        assert len(set(tab.run(tops))) == 1


def press(tab, key, code=None):
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, text=" " if key == " " else "")


def wait_for(tab, condition):
    """Until a script says true; a busy machine may take its time."""
    deadline = time.monotonic() + 30
    while not tab.run(condition) and time.monotonic() < deadline:
        time.sleep(0.05)


def layer(tab):
    wait_for(tab, "graphprismPlay.computed() === graphprismPlay.state.depth")
    return tab.run(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => "
        "done(Number(document.getElementById('layer').value)))))"
    )


def test_keyboard_plays_pauses_and_steps(browser, address):
    with browser.page(f"{address}#graph=karate&depth=12&layer=3") as tab:
        assert layer(tab) == 3
        press(tab, "ArrowRight")
        assert layer(tab) == 4
        press(tab, "ArrowLeft")
        press(tab, "ArrowLeft")
        assert layer(tab) == 2
        press(tab, "Home")
        assert layer(tab) == 0
        name = "document.getElementById('play').ariaLabel"
        press(tab, " ", "Space")
        assert tab.run(name) == "Pause"
        press(tab, " ", "Space")
        assert tab.run(name) == "Play"
        press(tab, "End")
        assert layer(tab) == 12
        said = tab.run("document.getElementById('said').textContent")
        assert said.startswith("After 12 layers, GCN carries 1.")


@pytest.mark.slow
def test_playing_ends_at_the_last_layer(browser, address):
    with browser.page(f"{address}#graph=caffeine&depth=2") as tab:
        wait_for(tab, "document.getElementById('play').ariaLabel === 'Play'")
        assert layer(tab) == 2
        assert tab.run("document.querySelectorAll('#numbers tr').length") == 2


def test_everything_that_takes_focus_has_a_name(browser, address):
    with browser.page(f"{address}#graph=own&nodes=3&edges=0-1.1-2&layer=0") as tab:
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        focusable = [
            node
            for node in nodes
            if any(each["name"] == "focusable" and each["value"]["value"] for each in node.get("properties", []))
            and node["role"]["value"] != "RootWebArea"
        ]
        assert len(focusable) > 15
        assert [node["role"]["value"] for node in focusable if not node["name"]["value"]] == []
        images = [node["name"]["value"] for node in nodes if node.get("role", {}).get("value") == "image"]
        assert sum("rank-one distance" in name.lower() for name in images) == 3


def setting(tab):
    return tab.run("(() => { const { own, ...rest } = graphprismPlay.state; return rest; })()")


def test_link_brings_everything_back(browser, address):
    link = "#graph=random&split=ppr&depth=20&width=5&seed=9&size=33&layer=7"
    with browser.page(address + link) as tab:
        assert setting(tab) == {"graph": "random", "split": "ppr", "depth": 20, "width": 5, "seed": 9, "size": 33}
        assert layer(tab) == 7
        tab.run(
            "(() => { const seed = document.getElementById('seed'); seed.value = 10; "
            "seed.dispatchEvent(new Event('input')); })()"
        )
        wait_for(tab, "location.hash.includes('seed=10')")
        changed = tab.run("location.hash")
    assert "seed=10" in changed
    with browser.page(address + changed) as tab:
        assert setting(tab)["seed"] == 10
        assert layer(tab) == 7


@pytest.mark.parametrize(
    "link", ["#graph=nothing&split=x&depth=1e9&width=NaN&seed=-4", "#graph=own&nodes=2&edges=0-7", "#%%%=&layer=x"]
)
def test_broken_link_is_harmless(browser, address, link):
    with browser.page(address + link) as tab:
        assert tab.complaints() == []
        found = setting(tab)
        assert found["graph"] == "grid"
        assert 1 <= found["depth"] <= 128
        assert 2 <= found["width"] <= 32
        assert found["seed"] >= 1


def test_pasted_edges_become_the_graph(browser, address):
    with browser.page(f"{address}#graph=path&size=5&layer=0") as tab:
        tab.click("#graph-choices input[value=own]")
        assert tab.run("document.getElementById('edges').value") == "0 1\n1 2\n2 3\n3 4"
        tab.run("document.getElementById('edges').value = ''")
        tab.type("#edges", "anna bert\nbert,carl\ncarl -> anna # a ring\nanna-dora\ndora dora")
        assert tab.run("[graphprismPlay.graph().numNodes, graphprismPlay.graph().edges]") == [
            4,
            [[0, 1], [1, 2], [0, 2], [0, 3]],
        ]
        tab.run("document.getElementById('edges').value = ''")
        tab.type("#edges", "a b c d")
        assert "must hold two nodes" in tab.run("document.getElementById('edges-error').textContent")
        assert tab.run("graphprismPlay.graph().numNodes") == 4


def test_graph_can_be_drawn(browser, address):
    with browser.page(f"{address}#graph=own&nodes=2&edges=0-1&points=0-0.rr-0&layer=0") as tab:
        box = tab.run(
            "(() => { const box = document.getElementById('gcn-view').getBoundingClientRect(); "
            "return [box.x, box.y, box.width, box.height]; })()"
        )
        x, y = box[0] + box[2] / 2, box[1] + box[3] / 4

        def mouse(kind, x, y):
            tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

        for kind in ("mousePressed", "mouseReleased"):
            mouse(kind, x, y)
        assert tab.run("graphprismPlay.graph().numNodes") == 3
        spots = tab.run("graphprismPlay.spots()")
        first, last = ([box[0] + spots[at][0], box[1] + spots[at][1]] for at in (0, 2))
        mouse("mousePressed", *last)
        mouse("mouseMoved", *first)
        mouse("mouseReleased", *first)
        assert tab.run("graphprismPlay.graph().edges") == [[0, 1], [0, 2]]
        assert tab.run("document.getElementById('edges').value") == "0 1\n0 2"


@pytest.mark.slow
def test_frame_of_200_nodes_takes_less_than_a_sixtieth_of_a_second(browser, address):
    with browser.page(f"{address}#graph=random&size=200&depth=128&width=16") as tab:
        wait_for(tab, "graphprismPlay.computed() === 128")
        # time of the processor, not of the clock: other tests run beside this one
        tab.call("Performance.enable", timeDomain="threadTicks")
        tab.run(
            "(() => { window.counted = 0; const count = () => { window.counted += 1; requestAnimationFrame(count); }; "
            "count(); })()"
        )

        def used():
            metrics = {each["name"]: each["value"] for each in tab.call("Performance.getMetrics")["metrics"]}
            return metrics["TaskDuration"], tab.run("window.counted")

        before = used()
        time.sleep(1.5)
        after = used()
        assert after[1] - before[1] > 10
        assert (after[0] - before[0]) / (after[1] - before[1]) < 1 / 60


def test_picture_is_drawn(browser, address):
    with browser.page(f"{address}#graph=karate&layer=4") as tab:
        size = tab.run(
            "(() => { const c = graphprismPlay.card(); return [c.width, c.height, c.toDataURL().length > 100000]; })()"
        )
        assert size == [1600, 900, True]


def shown(tab, at):
    """Number of the layer that is named, and the colours of all nodes in both pictures, at a moment between layers."""
    tab.run(
        f"new Promise((done) => {{ graphprismPlay.goTo({at}); "
        "requestAnimationFrame(() => requestAnimationFrame(() => done(true))); })"
    )
    return tab.run(
        """(() => {
          const colours = (id) => {
            const canvas = document.getElementById(id), ratio = canvas.width / canvas.clientWidth;
            const context = canvas.getContext("2d");
            return graphprismPlay.spots().map((spot) => {
              const place = spot.map((value) => Math.round(value * ratio));
              return [...context.getImageData(...place, 1, 1).data].join();
            });
          };
          return [Number(document.getElementById("layer").value), colours("gcn-view"), colours("mrs-view")];
        })()"""
    )


@pytest.mark.parametrize("graph", quick(["grid", "karate"], "karate"))
def test_layer_0_has_the_same_colours_in_both_pictures_until_the_next_is_named(browser, address, graph):
    with browser.page(f"{address}#graph={graph}&depth=4&layer=0") as tab:
        wait_for(tab, "graphprismPlay.computed() === 4")
        start = shown(tab, 0)
        assert start[1] == start[2]
        for moment in (0.1, 0.3, 0.5):  # messages are under way, nothing has arrived
            assert shown(tab, moment) == start
        later = shown(tab, 0.95)
        assert later[0] == 1
        assert later[1] != later[2]
        assert shown(tab, 1)[0] == 1


@pytest.mark.parametrize("width", quick([390, 1024, 1600], 390))
def test_numbers_at_the_axes_keep_away_from_the_rim(browser, address, width):
    with browser.page(f"{address}#graph=karate&depth=128&layer=64", width) as tab:
        wait_for(tab, "graphprismPlay.computed() === 128")
        inked = """(() => ["distance-chart", "rank-chart"].map((id) => {
          const canvas = document.getElementById(id), ratio = canvas.width / canvas.clientWidth;
          const strip = (x) => canvas.getContext("2d").getImageData(x, 0, Math.round(6 * ratio), canvas.height).data;
          const rims = [strip(0), strip(canvas.width - Math.round(6 * ratio))];
          return rims.some((data) => data.some((value) => value > 0));
        }))()"""
        assert tab.run(inked) == [False, False]


@pytest.mark.slow
def test_words_of_the_picture_end_before_its_rim(browser, address):
    with browser.page(f"{address}#graph=cholesterol&split=eigenvector&depth=128&width=32&layer=128") as tab:
        wait_for(tab, "graphprismPlay.computed() === 128")
        spread = """(() => {
          const { data } = graphprismPlay.card().getContext("2d").getImageData(1540, 40, 60, 120);
          const reds = [...data].filter((_, at) => at % 4 === 0);
          return Math.max(...reds) - Math.min(...reds);
        })()"""
        assert tab.run(spread) < 12  # of the paper alone
