"""The page of a comparison in a real browser: Chromium, driven by playwright."""

import shutil

import numpy as np
import pytest
from sklearn.datasets import load_wine

from sklearn_mdl import KernelReadout, LinearReadout, MDLReadoutSwitcher, compare

driver = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium"),
]

EVIL = "</script><script>document.title = 'broken'</script><img src=x onerror=alert(1)>"
WIDTHS = (390, 1280, 1920)


@pytest.fixture(scope="module")
def found():
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))
    X, y = X[rows], y[rows]
    switcher = MDLReadoutSwitcher([LinearReadout(lr=0.01), KernelReadout()])
    encoders = {"all": X, "few": X[:, :3], EVIL: X[:, 3:6]}
    datasets = {"wine": (encoders, y), EVIL: (encoders, y % 2)}
    return compare(datasets=datasets, switcher=switcher, n_orders=2, verbose=0)


@pytest.fixture(scope="module")
def path(found, tmp_path_factory):
    return found.to_html(tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def browser():
    with (
        driver.sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        ) as browser,
    ):
        yield browser


@pytest.fixture
def visit(browser, path):
    """Open the page; at the end it has asked no host and raised no error."""
    said, contexts = [], []

    def visit(width=1280, **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: (said.append("dialog"), dialog.dismiss()))
        page.on("request", lambda r: said.append(r.url) if r.url != url else None)
        page.goto(url := path.as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert said == []


def encoders(page):
    """Return the names in the table of encoders that is shown."""
    return page.locator(".of:not([hidden]) .main tbody th").all_inner_texts()


def ink(page, selector):
    """Return how many pixels of a chart are drawn on."""
    return page.locator(f"{selector} canvas").evaluate(
        """canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width,
        canvas.height).data.filter((x, i) => i % 4 === 3 && x > 0).length"""
    )


def test_names_are_texts(visit, found):
    page = visit()
    assert page.title() == "3 encoders on 2 datasets"
    assert set(encoders(page)) == set(found.scorer.encoder_names_)
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_cut_off_at_any_width(visit, width, scheme):
    page = visit(width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(255, 255, 255)") == (scheme == "light")
    assert ink(page, "#chart") > 1000
    for table in page.locator(".scroll:visible").all():  # scrolls where it is wider
        assert table.bounding_box()["width"] <= width


def test_tables_sort_by_mouse_and_keyboard(visit, found):
    page = visit()
    by_rank = encoders(page)
    head = page.locator(".of:not([hidden]) th", has_text="nats per label")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    rising = encoders(page)
    nats = {row.encoder: row.nats for row in found.rows()}
    assert rising == sorted(nats, key=nats.get)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert encoders(page) == rising[::-1]
    page.locator(".of:not([hidden]) th", has_text="rank").locator("button").click()
    assert encoders(page) == by_rank


def test_encoders_and_datasets_are_filtered(visit, found):
    page = visit()
    before = ink(page, "#chart")
    page.locator("#legend label", has_text="few").locator("input").uncheck()
    assert ink(page, "#chart") != before
    assert page.locator(".main tr.off:visible").count() == 1
    page.get_by_role("button", name="all / none").click()
    assert ink(page, "#chart") == before
    page.select_option("#dataset", label="wine")
    assert encoders(page) == [row.encoder for row in found.rows("wine")]
    page.select_option("#dataset", label=EVIL)
    assert encoders(page) == [row.encoder for row in found.rows(EVIL)]
    nats = ink(page, "#chart")
    page.get_by_role("button", name="accuracy", exact=True).click()
    assert ink(page, "#chart") != nats


def test_curves_say_their_numbers_on_hover_and_by_keys(visit, found):
    page = visit()
    chart = page.locator("#chart")
    chart.scroll_into_view_if_needed()
    chart.hover()
    assert "labels" in page.locator(".tip").inner_text()
    assert "±" in page.locator(".tip").inner_text()
    page.mouse.move(2, 2)
    chart.focus()
    chart.press("Home")
    first = page.locator("#reading").inner_text()
    chart.press("ArrowRight")
    second = page.locator("#reading").inner_text()
    labels = found.curves_by_cell["wine", "all"].labels
    assert f"after {round(labels[0] + 1e-9)} labels" in first
    assert first != second
    term = page.locator(".note .term", has_text="band")
    term.focus()
    assert "probability 90%" in page.locator(".tip").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()


def test_a_cell_opens_its_curve_and_its_readouts(visit):
    page = visit()
    button = page.locator(".heat [data-cell] button").first
    button.focus()
    button.press("Enter")
    assert page.locator("#cell-title").is_visible()
    assert ink(page, "#cell-curve") > 500
    assert ink(page, "#cell-kinds") > 500
    page.keyboard.press("Escape")
    assert page.locator("#cell-title").is_hidden()


def test_without_scripts_there_are_tables_and_figures(visit, found):
    page = visit(java_script_enabled=False)
    assert page.locator("figure svg:visible").count() == 6
    assert page.locator("select:visible").count() == 0
    table = page.locator(".main").first
    shown = table.locator("tbody th").all_inner_texts()
    assert shown == [row.encoder for row in found.rows()]


def test_it_prints_figures_that_stand_still(visit):
    page = visit()
    page.emulate_media(media="print")
    assert page.locator("figure svg:visible").count() == 6
    assert page.locator("canvas:visible").count() == 0
    assert len(page.pdf()) > 10_000


def test_it_is_ready_within_a_second(visit):
    page = visit()
    spent = page.evaluate(
        "performance.timing.loadEventEnd - performance.timing.fetchStart"
    )
    assert 0 < spent < 1000
