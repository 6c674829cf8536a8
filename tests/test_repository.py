"""What surrounds the code says the same as the code: requirements, image, compose file, theme, CI, README."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from sqlalchemy import make_url
from streamlit import config as streamlit_config

from engine.settings import Settings, load_settings
from engine.strategies import registry

SETTINGS = {name.upper() for name in Settings.model_fields}
_VARIABLE = re.compile(r"\$\{(\w+)([^}]*)\}")


# Requirements


def pins(root: Path, name: str) -> list[list[Requirement]]:
    """What a file of requirements names itself, block by block: first what is imported, then what that needs."""
    blocks = (root / name).read_text(encoding="utf-8").split("\n\n")
    return [
        [Requirement(line) for line in block.splitlines() if line and not line.startswith(("#", "-r "))]
        for block in blocks
    ]


def needed(wanted: list[Requirement]) -> set[str]:
    """The names of the wanted distributions and of all they need here, as their metadata says."""
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while wanted:
        requirement = wanted.pop()
        names.add(canonicalize_name(requirement.name))
        for extra in {"", *requirement.extras} - {e for name, e in seen if name == requirement.name}:
            seen.add((requirement.name, extra))
            for line in importlib.metadata.requires(requirement.name) or ():
                further = Requirement(line)
                if further.marker is None or further.marker.evaluate({"extra": extra}):
                    wanted.append(further)
    return names


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_exact_and_installed(root: Path, name: str) -> None:
    for pin in (pin for block in pins(root, name) for pin in block):
        assert str(pin.specifier) == f"=={importlib.metadata.version(pin.name)}", pin.name


def test_requirements_are_complete_and_nothing_more(root: Path) -> None:
    product, dev = pins(root, "requirements.txt"), pins(root, "requirements-dev.txt")
    of_product = {canonicalize_name(pin.name) for block in product for pin in block}
    of_dev = {canonicalize_name(pin.name) for block in dev for pin in block}
    assert of_product == needed(list(product[0]))
    assert of_dev == needed(list(dev[0])) - of_product


def test_every_imported_library_is_pinned_by_name(root: Path) -> None:
    named = {
        canonicalize_name(pin.name)
        for name in ("requirements.txt", "requirements-local.txt", "requirements-scale.txt")
        for pin in pins(root, name)[0]
    }
    of_module = importlib.metadata.packages_distributions()
    known = sys.stdlib_module_names | {"app", "engine", "pages", "samples"}
    for path in (path for folder in ("app", "engine", "pages") for path in (root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                modules = [node.module]
            for module in {module.partition(".")[0] for module in modules} - known:
                candidates = {canonicalize_name(name) for name in of_module.get(module, [module])}
                assert candidates & named, f"{path.relative_to(root)} imports {module}"


def test_extras_differ_from_the_product_only_by_what_they_add(root: Path) -> None:
    product = {canonicalize_name(pin.name) for block in pins(root, "requirements.txt") for pin in block}
    for name in ("requirements-local.txt", "requirements-bench.txt", "requirements-scale.txt"):
        text = (root / name).read_text(encoding="utf-8")
        added = [pin for block in pins(root, name) for pin in block]
        assert "-r requirements.txt" in text.splitlines()
        assert all(re.fullmatch("==[^*]+", str(pin.specifier)) for pin in added)
        assert not product & {canonicalize_name(pin.name) for pin in added}


# Dockerfile


@pytest.fixture(scope="module")
def dockerfile(root: Path) -> list[tuple[str, str]]:
    """(instruction, rest) of each instruction of the last stage, continued lines joined."""
    text = (root / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    instructions = [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]
    last = max(index for index, (word, _) in enumerate(instructions) if word == "FROM")
    return [(word, " ".join(rest.split())) for word, rest in instructions[last:]]


def test_base_images_are_pinned(root: Path) -> None:
    images = re.findall(r"^FROM (\S+)", (root / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(images) == 2
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", image) for image in images)


def test_image_copies_what_exists_and_what_the_build_context_holds(
    root: Path, dockerfile: list[tuple[str, str]]
) -> None:
    sources = [
        source
        for word, rest in dockerfile
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    kept = {
        line.removeprefix("!")
        for line in (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    assert all((root / source).exists() for source in sources)
    assert kept == {*sources, "requirements.txt", "requirements-scale.txt"}
    assert {"app", "engine", "pages", "samples", ".streamlit"} <= kept


def test_image_runs_the_app_as_an_ordinary_user(dockerfile: list[tuple[str, str]]) -> None:
    last = dict(dockerfile)
    assert last["USER"] == "chunkscope"
    assert last["CMD"] == '["python", "-m", "app"]'
    words = [word for word, _ in dockerfile]
    assert words.index("USER") < words.index("CMD")


def test_image_variables_are_settings(dockerfile: list[tuple[str, str]]) -> None:
    last = dict(dockerfile)
    variables = dict(pair.split("=", 1) for pair in last["ENV"].split())
    of_the_system = {"PATH", "PYTHONUNBUFFERED"}
    assert set(variables) - of_the_system <= SETTINGS
    assert variables["HOST"] == "0.0.0.0"
    assert variables["PORT"] == last["EXPOSE"]
    assert variables["DATA_DIR"] == last["VOLUME"]
    assert f"127.0.0.1:{variables['PORT']}/ready" in last["HEALTHCHECK"]


# Compose


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((root / "docker-compose.yml").read_text(encoding="utf-8"))
    return content


SCALED = ("app-1", "app-2", "proxy", "scheduler", "worker")
"""Services of the profile `scale`."""


def test_services_are_healthy_before_they_are_used(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {name for name in services if name not in SCALED} == {"app", "qdrant", "postgres"}
    assert all(service["healthcheck"]["test"][0] == "CMD" for service in services.values())
    waits = services["app"]["depends_on"]
    assert waits == {name: {"condition": "service_healthy"} for name in ("qdrant", "postgres")}


def test_service_images_are_pinned(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert re.fullmatch(r"[\w/.-]+:v?\d+\.\d+(\.\d+)?(-\w+)?", service["image"])
    assert compose["services"]["app"]["build"] == "."
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))
    assert compose["services"]["app"]["image"] == f"chunkscope:{project['project']['version']}"


def test_compose_variables_are_settings(compose: dict[str, Any], dockerfile: list[tuple[str, str]]) -> None:
    environment = compose["services"]["app"]["environment"]
    assert set(environment) <= SETTINGS
    image = dict(pair.split("=", 1) for pair in dict(dockerfile)["ENV"].split())
    assert all(environment[name] == image[name] for name in ("HOST", "PORT", "DATA_DIR"))


def test_passwords_come_from_the_environment_and_are_required(root: Path, compose: dict[str, Any]) -> None:
    text = (root / "docker-compose.yml").read_text(encoding="utf-8")
    variables = _VARIABLE.findall(text)
    assert {name for name, _ in variables} == {"POSTGRES_PASSWORD", "QDRANT_API_KEY", "API_KEYS"}
    assert all(rest.startswith(":?") for _, rest in variables)
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|KEY", name):
                assert _VARIABLE.fullmatch(value), f"{name} is written into the file"


def test_app_finds_its_services(compose: dict[str, Any]) -> None:
    services = compose["services"]
    values = {name.lower(): _VARIABLE.sub("secret", value) for name, value in services["app"]["environment"].items()}
    settings = load_settings(**{**values, "api_keys": f"team:{'0' * 64}"})
    database = make_url(settings.resolved_database_url)
    postgres = services["postgres"]["environment"]
    assert (database.drivername, database.host, database.port) == ("postgresql+psycopg", "postgres", 5432)
    assert (database.username, database.database) == (postgres["POSTGRES_USER"], postgres["POSTGRES_DB"])
    assert settings.qdrant_url == "http://qdrant:6333"
    assert settings.qdrant_api_key is not None
    key_of_server = services["qdrant"]["environment"]["QDRANT__SERVICE__API_KEY"]
    assert key_of_server == services["app"]["environment"]["QDRANT_API_KEY"]


def test_volumes_are_named_and_mounted_where_data_is_kept(
    compose: dict[str, Any], dockerfile: list[tuple[str, str]]
) -> None:
    mounts = {name: service["volumes"] for name, service in compose["services"].items() if name not in SCALED}
    assert mounts == {
        "app": [f"data:{dict(dockerfile)['VOLUME']}"],
        "qdrant": ["qdrant:/qdrant/storage"],
        "postgres": ["postgres:/var/lib/postgresql/data"],
    }
    assert set(compose["volumes"]) == {"data", "qdrant", "postgres"}


def test_only_the_app_is_published_and_only_on_loopback(compose: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert published == {"app": ["127.0.0.1:8501:8501"], "proxy": ["127.0.0.1:8080:8080"]}


def test_the_scale_profile_is_apart_and_complete(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {name for name, service in services.items() if service.get("profiles")} == set(SCALED)
    assert all(services[name]["profiles"] == ["scale"] for name in SCALED)
    assert services["worker"]["deploy"]["replicas"] == 2
    ours = [services[name] for name in SCALED if name != "proxy"]
    assert {service["image"] for service in ours} == {f"{services['app']['image']}-scale"}
    assert all(service["build"]["args"] == {"REQUIREMENTS": "requirements-scale.txt"} for service in ours)
    started = {"proxy"}
    while added := {name for each in started for name in services[each].get("depends_on", {})} - started:
        started |= added
    assert started == {*SCALED, "qdrant", "postgres"}


def test_apps_and_workers_of_the_scale_profile_share_servers_data_and_scheduler(compose: dict[str, Any]) -> None:
    services = compose["services"]
    one = services["app"]["environment"]
    for name in ("app-1", "app-2", "worker"):
        environment = services[name]["environment"]
        assert {variable for variable in environment if not variable.startswith("DASK_DISTRIBUTED_")} <= SETTINGS
        assert one.items() <= environment.items()
        assert services[name]["volumes"] == services["app"]["volumes"]
        scheduler = urlsplit(environment["DASK_SCHEDULER_ADDRESS"])
        assert services[str(scheduler.hostname)]["command"][-2] == str(scheduler.port)
        assert environment["DASK_SCHEDULER_ADDRESS"] in services["worker"]["command"]
    assert services["worker"]["environment"]["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] == "False"
    processes = 2 + services["worker"]["deploy"]["replicas"]
    assert processes * int(services["app-1"]["environment"]["DATABASE_CONNECTIONS"]) < 100


def test_the_proxy_keeps_a_browser_with_one_of_the_apps(root: Path, compose: dict[str, Any]) -> None:
    proxy = compose["services"]["proxy"]
    (mount,) = proxy["volumes"]
    text = (root / mount.split(":")[0]).read_text(encoding="utf-8")
    upstreams = re.search(r"reverse_proxy (.+) \{", text)
    assert upstreams
    port = compose["services"]["app-1"]["environment"]["PORT"]
    assert upstreams[1].split() == [f"app-1:{port}", f"app-2:{port}"]
    assert set(proxy["depends_on"]) == {"app-1", "app-2"}
    assert "lb_policy cookie" in text
    assert "health_uri /ready" in text
    assert f":{proxy['ports'][0].rsplit(':', 1)[1]} {{" in text


# Streamlit


def _leaves(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in table.items():
        path = f"{prefix}{name}"
        values |= _leaves(value, f"{path}.") if isinstance(value, dict) else {path: value}
    return values


@pytest.fixture(scope="module")
def theme(root: Path) -> dict[str, Any]:
    return _leaves(tomllib.loads((root / ".streamlit" / "config.toml").read_text(encoding="utf-8")))


def test_streamlit_knows_every_option(theme: dict[str, Any]) -> None:
    for path in theme:
        section, option = path.rsplit(".", 1)
        assert option in streamlit_config.get_options_for_section(section), path


def test_streamlit_shows_no_traceback_and_sends_nothing(theme: dict[str, Any]) -> None:
    assert theme["client.showErrorDetails"] == "none"
    assert theme["client.toolbarMode"] == "viewer"
    assert theme["browser.gatherUsageStats"] is False
    assert theme["server.headless"] is True
    assert theme["server.maxUploadSize"] == load_settings().max_upload_mb


def test_chart_colours_are_as_many_as_streamlit_takes(theme: dict[str, Any]) -> None:
    colours = {name: theme[f"theme.chart{name}Colors"] for name in ("Categorical", "Sequential", "Diverging")}
    assert all(re.fullmatch("#[0-9A-F]{6}", colour) for scale in colours.values() for colour in scale)
    assert colours["Categorical"] == ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"]
    assert len(colours["Sequential"]) == len(colours["Diverging"]) == 10


# Make, CI, README


def test_make_has_the_promised_targets(root: Path) -> None:
    text = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*)(?: [a-z-]+)*:", text, re.MULTILINE))
    assert {"run", "test", "test-local", "lint", "bench", "clean"} <= targets


def test_ci_is_a_sound_script(root: Path) -> None:
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert "make test ARGS=--fail-on-skip" in text
    assert "make test-local" in text
    bash = shutil.which("bash")
    assert bash is not None
    assert subprocess.run([bash, "-n", str(script)], check=False, timeout=60).returncode == 0


def test_readme_names_every_strategy_once(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(registry.names())


def test_readme_links_lead_somewhere(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (root / link).exists()] == []


def test_readme_names_only_settings_that_exist(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][A-Z]+(?:_[A-Z]+)+)(?:=[^`]*)?`", text))
    assert named - SETTINGS == {"POSTGRES_PASSWORD"}


# The rule about skipped tests

_PROBE = """
import pytest

def test_runs():
    assert True

@pytest.mark.parametrize("reason", {reasons!r})
def test_part_is_missing(reason):
    pytest.skip(reason)
"""


@pytest.mark.parametrize(
    ("reasons", "code"),
    [(["no browser here"], 1), (["QDRANT_TEST_URL names no Qdrant server", "requirements-local is not installed"], 0)],
)
def test_ci_fails_when_a_part_is_missing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reasons: list[str], code: int
) -> None:
    monkeypatch.delenv("QDRANT_TEST_URL", raising=False)
    shutil.copy(root / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_probe.py").write_text(_PROBE.format(reasons=reasons), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--fail-on-skip", "--rootdir", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout
    assert f"1 passed, {len(reasons)} skipped" in done.stdout
    assert ("skipped tests that count as failures" in done.stdout) is (code == 1)
