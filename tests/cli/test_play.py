import html

from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.play import page


def test_page_is_written(tmp_path):
    path = tmp_path / "new" / "play.html"
    run = CliRunner().invoke(app, ["play", "--no-open", "-o", str(path)])
    assert run.exit_code == 0, run.output
    assert path.read_text("utf-8") == page()
    assert run.stdout == f"The page is in {path}; open it in a browser.\n"


def test_folder_is_refused_in_one_sentence(tmp_path):
    run = CliRunner().invoke(app, ["play", "--no-open", "-o", str(tmp_path)])
    assert run.exit_code == 2
    assert run.stderr.startswith("error: --out must be a file such as")


def test_page_asks_for_nothing():
    text = html.unescape(page())
    assert "Content-Security-Policy" in text
    assert "default-src 'none'" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
