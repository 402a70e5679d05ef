"""The page in a real browser: it draws, sorts and filters, asks for nothing, and fits."""

from dataclasses import replace

import pytest

from graphprism.report import page
from graphprism.report.runs import COLUMNS
from graphprism.results import Cell, Score, TableResult
from tests.pairwise import in_turn
from tests.report.browser import Browser, find_browser
from tests.report.samples import depth_runs, depth_table, directed_table, node_runs, run

PROGRAM = find_browser()
TEST, TIME, MODEL, LAYERS = (
    1 + [each.name for each in COLUMNS].index(name) for name in ("test", "time", "model", "layers")
)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs chromium or google-chrome, and neither is on the path")
# An image that would load from elsewhere and run code, were it not loaded as an image.
FIGURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" onload="document.title=1">'
    '<script>fetch("http://192.0.2.1/")</script><image href="http://192.0.2.1/a.png"/></svg>'
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(PROGRAM, tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    depth, node = depth_runs(), node_runs()
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page([depth_table(depth), directed_table(node)], depth + node, {"Figure": FIGURE}), "utf-8")
    return path.as_uri()


def column(tab, number):
    """The shown values of a column of the list of runs."""
    rows = "Array.from(document.querySelectorAll('table.runs tbody tr')).filter((row) => !row.hidden)"
    return tab.run(f"{rows}.map((row) => row.cells[{number}].textContent)")


def heading(number):
    return f"table.runs thead th:nth-child({number + 1}) button"


def fits(tab):
    """Whether the page scrolls in one direction alone."""
    return tab.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@in_turn(width=[1280, 400], scheme=["light", "dark"])
def test_fits_and_is_silent(browser, address, width, scheme):
    with browser.page(address, width, scheme=scheme) as tab:
        assert tab.complaints() == []
        assert [url for url in tab.requests() if not url.startswith(("file:", "data:"))] == []
        assert fits(tab)
        assert tab.run("innerWidth") == width
        assert tab.run("document.title") == "graphprism report"
        assert tab.run("document.querySelector('figure img').naturalWidth") == 40


# The smallest contrast of text to what lies behind it.
CONTRAST = """(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [red, green, blue] = colour.slice(0, 3).map((value) => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (element) => {
    const pair = [numbers(getComputedStyle(element).color), behind(element)].map(light).sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  };
  const all = document.querySelectorAll(".badge, .small, .quoted, caption, h1, h2, td, th, a, dt, .warnings li");
  return Math.min(...Array.from(all, contrast));
})()"""


@pytest.mark.parametrize(("scheme", "page_is_light"), [("light", True), ("dark", False)])
def test_both_colour_schemes_can_be_read(browser, address, scheme, page_is_light):
    with browser.page(address, scheme=scheme) as tab:
        colour = tab.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (min(colour) > 200) is page_is_light
        assert tab.run(CONTRAST) >= 4.5


def test_sorting_by_numbers_and_words(browser, address):
    with browser.page(address) as tab:
        tab.click(heading(TEST))
        scores = [float(text.partition("look-up")[0]) for text in column(tab, TEST) if text]
        assert scores == sorted(scores)
        assert column(tab, TEST)[-1] == ""  # the run that diverged has none
        tab.click(heading(TEST))
        assert [float(text.partition("look-up")[0]) for text in column(tab, TEST) if text] == scores[::-1]
        assert column(tab, TEST)[-1] == ""
        assert tab.run(f"document.querySelector('{heading(TEST)}').parentElement.ariaSort") == "descending"
        tab.click(heading(TIME))  # times are words, sorted as the numbers behind them
        assert (column(tab, TIME)[0], column(tab, TIME)[-1]) == ("1 min 30 s", "1 h 00 min")
        tab.click(heading(MODEL))
        assert column(tab, MODEL) == sorted(column(tab, MODEL))


def test_scores_are_in_sight_at_1024(browser, address):
    with browser.page(address, 1024) as tab:
        assert fits(tab)
        right = "document.querySelector('.tall').getBoundingClientRect().right"
        ends = tab.run(
            f"['test', 'val', 'train'].map((name) => {right} - Array.from(document.querySelectorAll('table.runs th'))"
            ".find((each) => each.textContent === name).getBoundingClientRect().right)"
        )
        assert min(ends) >= 0
        inside = (
            "Array.from(document.querySelectorAll('#comparison .scroll'), (box) => box.scrollWidth - box.clientWidth)"
        )
        assert tab.run(inside) == [0]


def test_comparison_is_whole_on_a_phone(browser, address):
    with browser.page(address, 390) as tab:
        box = "document.querySelector('#comparison .scroll')"
        assert tab.run(f"{box}.scrollWidth - {box}.clientWidth") == 0
        # numbers stand in one line
        lines = "Array.from(document.querySelectorAll('#comparison td b'), (each) => each.getClientRects().length)"
        assert set(tab.run(lines)) == {1}


def test_depth_chart_can_be_read_on_a_phone(browser, address):
    with browser.page(address, 390) as tab:
        assert tab.run("document.querySelector('.depth-chart text').getBoundingClientRect().height") > 9
        assert fits(tab)


def test_figures_keep_a_width_that_can_be_read_on_a_phone(browser, tmp_path):
    wide, small = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20"/>' for width in (720, 40))
    path = tmp_path / "figures.html"
    path.write_text(page([], [], {"wide": wide, "small": small}), "utf-8")
    with browser.page(path.as_uri(), 390) as tab:
        widths = "Array.from(document.querySelectorAll('figure img'), (each) => each.getBoundingClientRect().width)"
        assert tab.run(widths) == pytest.approx([528, 56], abs=1)  # 33 rem at most, the small one with its padding
        assert fits(tab)


def test_filter_by_words_and_choices(browser, address):
    with browser.page(address) as tab:
        tab.type("#filter", "MRS-gcn res")
        assert len(column(tab, 0)) == 18
        assert tab.run("document.getElementById('filter-count').textContent") == "18 of 62 runs"
        tab.click("#filter-clear")
        assert len(column(tab, 0)) == 62
        choose = "const s = document.querySelector('select[data-column=\"1\"]'); s.value = 'squirrel';"
        tab.run(f"(() => {{ {choose} s.dispatchEvent(new Event('change')); }})()")
        assert column(tab, 1) == ["squirrel"] * 4
        tab.type("#filter", "diverged")
        assert column(tab, 0) == []


def test_a_cell_leads_to_its_runs(browser, address):
    with browser.page(address) as tab:
        tab.click("#table-depth tbody tr:nth-child(2) td:nth-child(3) a")
        assert {(row, layers) for row, layers in zip(column(tab, MODEL), column(tab, LAYERS), strict=True)} == {
            ("mrs-gcn", "2")
        }
        assert tab.run("document.getElementById('filter-count').textContent") == "3 of 62 runs, behind MRS-GCN, 2"
        assert tab.run("location.hash") == "#runs"


def test_whole_run_opens(browser, address):
    with browser.page(address) as tab:
        assert tab.run("document.querySelector('table.runs pre').checkVisibility()") is False
        tab.click("table.runs summary")
        assert tab.run("document.querySelector('table.runs pre').checkVisibility()") is True


def drawn(tab, chart=0):
    """Paths of the lines of a chart."""
    lines = f"document.querySelectorAll('.chart')[{chart}].querySelectorAll('.line')"
    return tab.run(f"Array.from({lines}, (line) => line.getAttribute('d'))")


def test_curves_are_drawn_and_can_be_chosen(browser, address):
    with browser.page(address) as tab:
        assert [len(drawn(tab, chart)) for chart in range(6)] == [12, 12, 2, 2, 2, 2]
        assert all(path.startswith("M") and path.count("L") == 59 and "NaN" not in path for path in drawn(tab))
        lines = "Array.from(document.querySelectorAll('.chart')[0].querySelectorAll('.line'))"
        look = "(line) => getComputedStyle(line).stroke + getComputedStyle(line).strokeDasharray"
        styles = tab.run(f"{lines}.map({look})")
        assert len(set(styles)) == 12
        tab.click(".curve-list li:nth-child(13) input")
        assert [len(drawn(tab, chart)) for chart in (0, 1, 2)] == [13, 13, 2]
        tab.click(".curve-list li:first-child input")
        assert len(drawn(tab)) == 12
        tab.click(".choose button")
        assert drawn(tab) == []
        assert tab.complaints() == []


def heights(tab):
    """Where the numbers of the first axis stand."""
    found = "Array.from(document.querySelectorAll('.chart')[0].querySelectorAll('text[text-anchor=end]'))"
    pairs = tab.run(f"{found}.map((text) => [text.textContent, Number(text.getAttribute('y'))])")
    return {float(text): height for text, height in pairs if text != "epoch"}


def test_first_epochs_that_explode_do_not_flatten_the_curves(browser, tmp_path):
    runs = []
    for each in depth_runs():
        loss = [2e6, *each.history["train_loss"][1:]]
        runs.append(replace(each, history={**each.history, "train_loss": loss}))
    path = tmp_path / "spike.html"
    path.write_text(page([], runs), "utf-8")
    with browser.page(path.as_uri()) as tab:
        assert max(heights(tab)) < 10
        assert "first epochs are cut off" in tab.run("document.querySelector('.chart .name').textContent")
        assert "cut off" not in tab.run("document.querySelectorAll('.chart .name')[1].textContent")
        tab.click(".choose input[type=checkbox]")  # the linear axis, too
        assert max(heights(tab)) < 10


def test_numbers_of_the_axes_are_whole(browser, tmp_path):
    wide = [replace(each, history={**each.history, "train_loss": [2e7] * 30 + [1e-6] * 30}) for each in depth_runs()]
    path = tmp_path / "wide.html"
    path.write_text(page([], wide), "utf-8")
    with browser.page(path.as_uri()) as tab:
        assert max(heights(tab)) > 1e6
        starts = "Array.from(document.querySelectorAll('.chart text'), (text) => text.getBBox().x)"
        assert min(tab.run(starts)) >= 0


def test_logarithmic_axis_is_a_choice(browser, address):
    with browser.page(address) as tab:
        logarithmic, accuracy, places = drawn(tab), drawn(tab, 3), heights(tab)
        assert places[0.1] - places[1] == pytest.approx(places[0.01] - places[0.1])
        tab.click(".choose input[type=checkbox]")
        linear, places = drawn(tab), heights(tab)
        assert places[0.2] - places[0.4] == pytest.approx(places[0.6] - places[0.8])
        assert len(linear) == 12
        assert linear != logarithmic
        tab.click(".choose input[type=checkbox]")
        assert drawn(tab) == logarithmic
        tab.run("document.querySelectorAll('.choose input[type=checkbox]')[1].click()")
        assert drawn(tab, 3) == accuracy  # where larger is better a logarithm shows nothing


def test_pointing_brings_a_curve_out(browser, address):
    with browser.page(address) as tab:
        tab.hover(".curve-list li:nth-child(2)")
        assert tab.run("document.querySelectorAll('.chart.picked').length") == 2
        assert tab.run("document.querySelectorAll('.chart g.on').length") == 2
        tab.hover(".chart svg")
        readout = tab.run("document.querySelector('.readout').textContent")
        assert readout.startswith("epoch ")
        assert tab.run("document.querySelectorAll('.chart.picked').length") == 2
        assert "±" in readout
        titles = tab.run("Array.from(document.querySelectorAll('.chart title'), (title) => title.textContent)")
        assert titles[0].startswith("gcn, 1 layer, lr 0.0003 (3 runs): best ")
        tab.hover("h1")
        assert tab.run("document.querySelectorAll('.chart.picked').length") == 0


def test_finding_a_configuration(browser, address):
    with browser.page(address) as tab:
        tab.type(".choose input[type=search]", "res 32")
        left = tab.run(
            "Array.from(document.querySelectorAll('.curve-list')[0].children).filter((li) => !li.hidden).length"
        )
        assert left == 1


def test_policy_stops_what_is_not_ours(browser, address):
    with browser.page(address) as tab:
        stopped = (
            "new Promise((done) => document.addEventListener('securitypolicyviolation', (e) => done(e.blockedURI)))"
        )
        tab.run(f"(() => {{ window.stopped = {stopped}; new Image().src = 'http://192.0.2.1/a.png'; }})()")
        assert tab.run("window.stopped").startswith("http://192.0.2.1/")
        added = "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
        tab.run(f"(() => {{ {added} }})()")
        assert tab.run("window.ran") is None


def test_empty_page(browser, tmp_path):
    path = tmp_path / "empty.html"
    path.write_text(page([], []), "utf-8")
    with browser.page(path.as_uri(), 400) as tab:
        assert tab.complaints() == []
        assert "Nothing has run yet" in tab.run("document.body.innerText")


def test_long_names_do_not_widen_a_narrow_page(browser, tmp_path):
    long = "x" * 200
    result = run(model=long, dataset=long)
    result = replace(result, metric=long, hardware={"name": long}, versions={long: long}, commit=long)
    cell = Cell(long, long, Score(1.0, 0.1, 1), Score(1.0), 1.0, long, (result.key,))
    table = TableResult("a", long, long, (long,), (long,), (cell,), long, notes=(long,))
    path = tmp_path / "long.html"
    path.write_text(page([table], [result], {long: FIGURE}, title=long), "utf-8")
    with browser.page(path.as_uri(), 400) as tab:
        assert fits(tab)
