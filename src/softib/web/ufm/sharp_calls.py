"""UFM's ``app/sharp/resources``: the aggregation tree of each job. softib's manager chooses the tree. The list of jobs
with a tree is stored in a file, so it survives a restart.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel, Field

from softib.errors import InputError, UnreadableFile
from softib.input_files import json_document
from softib.tenants.managers import InternalManager
from softib.tenants.model import parse_pkey, pkey_text
from softib.tenants.service import TenantService
from softib.web.ufm.authority import operator_of
from softib.web.ufm.numbers import Whole
from softib.web.ufm.partitions import names_of
from softib.whole_files import write_text

__all__ = ["add_sharp_calls"]

FILE = "sharp-resources.json"
MOST = 10_000


class _Job(BaseModel):
    app_id: Annotated[str, Field(min_length=1, max_length=64, coerce_numbers_to_str=True)]
    hosts_names: str | list[str]
    pkey: str = "0x7fff"
    app_resources_limit: Whole = -1


class _Jobs:
    """The jobs with a tree, by their ID. They are stored in the file ``path``."""

    def __init__(self, path: Path):
        self.path, self.lock = path, threading.Lock()
        self.all: dict[str, dict[str, Any]] = {}
        if path.exists():
            document = json_document(path, "aggregation trees of jobs", "remove it")
            if not isinstance(document, dict):
                raise UnreadableFile(f"{path}: not a file of the aggregation trees of jobs; remove it")
            self.all = document

    def write(self, jobs: dict[str, dict[str, Any]]) -> None:
        """Store these jobs in the file."""
        write_text(self.path, json.dumps(jobs) + "\n")
        self.all = jobs


def add_sharp_calls(app: FastAPI, service: TenantService) -> None:
    """Add the calls to ``app``."""
    jobs = _Jobs(service.folder / FILE)

    def one(app_id: str) -> dict[str, Any]:
        if app_id not in jobs.all:
            raise HTTPException(404, f"job {app_id[:64]!r} has no aggregation tree")
        return jobs.all[app_id]

    @app.post("/app/sharp/resources")
    def allocate(request: Request, body: _Job) -> dict[str, Any]:
        """Give a job an aggregation tree. A repeated request with the same hosts returns the same tree."""
        operator_of(request)
        manager = service.programmer.manager if service.programmer is not None else None
        if not isinstance(manager, InternalManager):
            raise HTTPException(501, "only softib's manager in a running fabric can assign aggregation trees to jobs")
        names = names_of(body.hosts_names)
        service.hosts_members(names)
        pkey = pkey_text(parse_pkey(body.pkey))
        with jobs.lock:
            allocated = jobs.all.get(body.app_id)
            if allocated is not None and allocated["hosts_names"] == names:
                return allocated
            if len(jobs.all) >= MOST:
                raise InputError(f"{MOST:,} jobs have an aggregation tree; delete those that have ended")
            tree = manager.tree(names)
            job = {"app_id": body.app_id, "hosts_names": names, "pkey": pkey, **tree}
            jobs.write({**jobs.all, body.app_id: job})
        return job

    @app.get("/app/sharp/resources")
    def resources(request: Request) -> list[dict[str, Any]]:
        """All jobs that have a tree."""
        operator_of(request, ("admin", "operator", "viewer"))
        return list(jobs.all.values())

    @app.get("/app/sharp/resources/{app_id}")
    def resource(request: Request, app_id: str) -> dict[str, Any]:
        """One job that has a tree."""
        operator_of(request, ("admin", "operator", "viewer"))
        return one(app_id)

    @app.delete("/app/sharp/resources/{app_id}", status_code=204)
    def free(request: Request, app_id: str) -> Response:
        """End a job's use of its tree; 404 if it has none."""
        operator_of(request)
        with jobs.lock:
            one(app_id)
            jobs.write({name: job for name, job in jobs.all.items() if name != app_id})
        return Response(status_code=204)
