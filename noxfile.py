"""Every gate of the project: what runs here is what CI runs.

`nox` runs the default sessions; `nox -s soak` the long ones, with a bounded budget.
"""

from pathlib import Path

import nox

nox.options.error_on_external_run = True
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "lint", "types", "docs", "examples"]

CODE = ("sniffgate", "tests", "noxfile.py")
# What ruff's ASYNC rules lack: yield in a nursery, unshielded await in finally, swallowed Cancelled, and their kin.
TRIO_MISTAKES = "ASYNC101,ASYNC102,ASYNC103,ASYNC104,ASYNC111,ASYNC112,ASYNC118,ASYNC119,ASYNC120"
VIRTUAL = ("tests/tasks", "tests/testing", "tests/scenarios", "tests/control", "tests/net")  # where such tests are
PYPROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PYPROJECT)


def install(session: nox.Session, group: str) -> None:
    """Installs the package and one dependency group, with any pip (only recent ones know groups)."""
    needs = [each for each in nox.project.dependency_groups(PYPROJECT, group) if each != "sniffgate"]
    session.install("-e", ".", *needs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The whole suite with branch coverage: 100 % for the rules, the floor below for everything."""
    install(session, "test")
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "-m", "not soak")
    session.run("coverage", "combine")
    session.run("coverage", "report", "--include=sniffgate/state/*", "--fail-under=100")
    session.run("coverage", "report", "--omit=sniffgate/cli/*,sniffgate/measure/*", "--fail-under=95")


@nox.session
def lint(session: nox.Session) -> None:
    """Style, and the Trio mistakes that a linter can see."""
    install(session, "lint")
    session.run("ruff", "check", *CODE)
    session.run("ruff", "format", "--check", *CODE)
    files = sorted(str(path) for path in Path("sniffgate").rglob("*.py"))
    session.run("python", "-m", "flake8_async", f"--enable={TRIO_MISTAKES}", *files)


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strict, on package, tests and this file."""
    install(session, "types")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """The manual, warnings as errors."""
    install(session, "docs")
    session.run("sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html")


@nox.session
def examples(session: nox.Session) -> None:
    """Every shipped configuration through `sniffgate check`, and the commented example through it too."""
    session.install("-e", ".")
    example = Path(session.create_tmp()) / "example.toml"
    with example.open("w") as sink:
        session.run("sniffgate", "init", stdout=sink)
    for path in [*sorted(Path("configs").glob("*.toml")), example]:
        session.run("sniffgate", "check", str(path))


@nox.session
def scenarios(session: nox.Session) -> None:
    """The failover table and the grid of detection on real processes, printed; then their tests, the long ones too."""
    install(session, "test")
    session.run("python", "-m", "tests.scenarios", *session.posargs)
    session.run("python", "-m", "tests.scenarios.grid")
    session.run("pytest", "tests/scenarios")


@nox.session
def virtual(session: nox.Session) -> None:
    """Every test on virtual time and no other: seconds, so for each change."""
    install(session, "test")
    session.run("pytest", "-m", "virtual and not soak", *VIRTUAL, *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Long property and load runs; CI gives them a bounded budget."""
    install(session, "test")
    patient = ("-o", "faulthandler_timeout=1200")  # a minute without a result is no hang here
    session.run("pytest", "-m", "soak", *patient, "tests", *session.posargs, env={"HYPOTHESIS_PROFILE": "long"})


@nox.session
def mutants(session: nox.Session) -> None:
    """Brings each fault of docs/known-faults.md back in a copy and shows that its tests catch it; some minutes."""
    install(session, "test")
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session
def mutation(session: nox.Session) -> None:
    """Puts every small fault into the rules and shows which tests catch it; an hour, less when it was done before."""
    install(session, "test")
    session.run("python", "-m", "tests.mutants.state", *session.posargs)
