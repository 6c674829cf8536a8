"""The command that looks at everything Chunkscope needs and says what is wrong and what to do."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.cli.options import json_option
from engine.cli.output import NO, OK, print_json
from engine.errors import DataFolderLocked, UserError
from engine.models import Record
from engine.settings import Settings, load_settings
from engine.workbench import Workbench

LEAST_FREE = 1024**3
"""Bytes that should be free where the data folder is."""


class Finding(Record):
    subject: str
    ok: bool
    message: str
    """What was found and, where it is wrong, what to do."""


def add_commands(commands: Any) -> None:
    doctor = commands.add_parser(
        "doctor", help="check settings, disk, database, index and models, and say what to do about what is wrong"
    )
    doctor.add_argument("--no-models", action="store_true", help="leave out the test call to each model")
    json_option(doctor)
    doctor.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    findings = []
    for finding in examine(not options.no_models):
        findings.append(finding)
        if not options.json:
            print(f"{'ok' if finding.ok else 'WRONG'}\t{finding.subject}\t{finding.message}")
    if options.json:
        print_json(findings)
    return OK if all(finding.ok for finding in findings) else NO


def examine(models: bool = True) -> Iterator[Finding]:
    """One finding after the other; where one thing keeps the rest from being looked at, it is the last."""
    try:
        settings = load_settings()
    except UserError as error:
        yield Finding(subject="settings", ok=False, message=error.message)
        return
    yield Finding(subject="settings", ok=True, message=_settings_in_words(settings))
    if not settings.is_local and not settings.known_api_keys:
        yield Finding(
            subject="address",
            ok=False,
            message=f"HOST is {settings.host}, which other machines reach, and API_KEYS is not set, so the app would not start. Make a key with `python -m engine api-key NAME`.",
        )
    yield _disk(settings.data_dir)
    try:
        workbench = Workbench.open(settings)
    except DataFolderLocked as error:
        yield Finding(
            subject="data folder",
            ok=False,
            message=f"{error.message} While it runs, its /ready page tells how index and database are.",
        )
        return
    except UserError as error:
        yield Finding(subject="data folder, database and index", ok=False, message=error.message)
        return
    with workbench:
        yield from _stored(workbench)
        if models:
            for role, probe in workbench.probe_models().items():
                yield Finding(subject=role, ok=probe.ok, message=probe.message)


def _settings_in_words(settings: Settings) -> str:
    answers = settings.resolved_llm_model or "extractive"
    judge = settings.resolved_judge_model or "none"
    return f"Embeddings {settings.resolved_embedding_model}, answers {answers}, judge {judge}."


def _disk(folder: Path) -> Finding:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    words = f"{free / 1024**3:.1f} GB are free where {folder} is."
    ok = free >= LEAST_FREE
    return Finding(subject="disk", ok=ok, message=words if ok else f"{words} Make room, or choose another DATA_DIR.")


def _stored(workbench: Workbench) -> Iterator[Finding]:
    try:
        for subject, words in workbench.health().items():
            yield Finding(subject=subject, ok=True, message=words)
    except UserError as error:
        yield Finding(subject="database and index", ok=False, message=error.message)
        return
    model = None if workbench.models.embedder is None else workbench.models.embedder.model
    token_model = None if workbench.models.token_embedder is None else workbench.models.token_embedder.model
    other = [each.name for each in workbench.collections() if each.model not in (model, token_model)]
    if other:
        yield Finding(
            subject="collections",
            ok=False,
            message=f"{', '.join(other)}: filled by another embedding model than {model}. Run `python -m engine reindex`, or set EMBEDDING_MODEL back.",
        )
    outdated = workbench.outdated_documents()
    if outdated:
        yield Finding(
            subject="documents",
            ok=False,
            message=f"{len(outdated)} were read by an older reader. Read them again on the Upload page.",
        )
    counts = workbench.job_counts()
    yield Finding(
        subject="jobs", ok=True, message=f"{counts['queued']} wait, {counts['running']} run, {counts['failed']} failed."
    )
