import re
import subprocess

from graphprism.training.provenance import source_commit


def git(folder, *words):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_commit_and_whether_it_was_changed(tmp_path):
    package = tmp_path / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(tmp_path, "init", "--quiet")
    assert source_commit(package) is None
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert source_commit(package) == commit
    (tmp_path / "notes").write_text("beside the package")
    assert source_commit(package) == commit
    (package / "new.py").write_text("")
    assert source_commit(package) == f"{commit}+"


def test_a_package_below_a_checkout_that_does_not_hold_it(tmp_path):
    git(tmp_path, "init", "--quiet")
    (tmp_path / "__init__.py").write_text("")
    assert source_commit(tmp_path) is None


def test_no_git_and_no_folder(tmp_path, monkeypatch):
    assert source_commit(tmp_path / "missing") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_commit() is None


def test_this_source_if_it_is_a_checkout():
    found = source_commit()
    assert found is None or re.fullmatch(r"[0-9a-f]{40}\+?", found)
