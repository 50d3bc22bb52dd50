"""The API of the manager: workers and their links, tasks, the consensus, exports, the log of actions."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response, UploadFile

from crowdwise.campaign import api_models as models
from crowdwise.campaign import tables as db
from crowdwise.campaign.access import Manager, get_service
from crowdwise.campaign.exports import FORMATS, export_table, write_table
from crowdwise.campaign.images import import_images, store_image
from crowdwise.campaign.manager_actions import ManagerActions
from crowdwise.campaign.task_files import make_tasks
from crowdwise.campaign.tool_exports import CONTENT_TYPES, Content, Tool, export_for_tool
from crowdwise.campaign.worker_api import ERRORS
from crowdwise.labels.errors import InputError

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["manager"], responses=ERRORS)


def get_actions(request: Request, manager: Manager) -> ManagerActions:
    """The actions of this manager; refuses everybody else."""
    return ManagerActions(get_service(request).campaign, manager)


Actions = Annotated[ManagerActions, Depends(get_actions)]


@router.get("/status")
def read_status(request: Request, _manager: Manager) -> models.Status:
    """Where the campaign stands."""
    return models.Status(**get_service(request).status())


@router.get("/workers")
def list_workers(request: Request, _manager: Manager) -> list[models.WorkerRow]:
    """Every worker's portrait."""
    return [models.WorkerRow(**row) for row in get_service(request).worker_rows()]


@router.post("/workers")
def add_worker(request: Request, given: models.NewWorker, actions: Actions) -> models.LinkReply:
    """A personal link for a worker, who is added if new."""
    return models.LinkReply(**get_service(request).make_link(actions.add_worker(given.worker), str(request.base_url)))


@router.post("/workers/link")
def renew_link(request: Request, given: models.WorkerName, actions: Actions) -> models.LinkReply:
    """A new personal link; older ones end."""
    return models.LinkReply(**get_service(request).make_link(actions.renew_link(given.worker), str(request.base_url)))


@router.post("/workers/state", status_code=204, response_class=Response)
def set_worker_state(given: models.StateRequest, actions: Actions) -> None:
    """Pause or exclude a worker, or let them work again."""
    actions.set_worker_state(given.worker, given.state, given.reason)


@router.post("/workers/pseudonymise")
def pseudonymise_worker(given: models.WorkerName, actions: Actions) -> models.WorkerName:
    """Replace a worker's name by one that says nothing."""
    return models.WorkerName(worker=actions.pseudonymise(given.worker))


@router.post("/workers/delete", status_code=204, response_class=Response)
def delete_worker(given: models.WorkerName, actions: Actions) -> None:
    """Delete a worker with their answers."""
    actions.delete_worker(given.worker)


@router.post("/tasks")
async def add_tasks(request: Request, given: list[models.NewTask], manager: Manager) -> models.TasksReply:
    """Add tasks; those whose names are there already stay as they are."""
    campaign = get_service(request).campaign
    tasks = make_tasks([each.model_dump(exclude_none=True) for each in given], campaign.project.question, "the request")
    for task in tasks:
        _refuse_foreign_images(task.content)
    tasks = import_images(campaign.project, tasks, campaign.images)
    n_new = await campaign.add_tasks(tasks)
    campaign.store.log_action(manager, "add tasks", f"{n_new} tasks")
    return models.TasksReply(added=n_new)


def _refuse_foreign_images(content: dict[str, str]) -> None:
    from crowdwise.campaign.images import FIELDS, IMAGE_NAME

    for field in FIELDS:
        if field in content and not IMAGE_NAME.match(content[field]):
            raise InputError(f"{field} must be the name of an uploaded image, as POST /api/images returns it.")


@router.get("/task")
def read_task(request: Request, _manager: Manager, name: Annotated[str, Query(max_length=500)]) -> models.TaskReply:
    """A task with every answer to it."""
    store = get_service(request).campaign.store
    row = store.find_task(name.replace("\x00", ""))
    if row is None:
        raise HTTPException(404, "There is no such task.")
    columns = (db.workers.c.name, db.answers.c.kind, db.answers.c.answer, db.answers.c.reason, db.answers.c.created)
    line = (
        sa.select(*columns)
        .join(db.workers, db.workers.c.id == db.answers.c.worker_id)
        .where(db.answers.c.task_id == row.id)
        .order_by(db.answers.c.id)
    )
    with store.read() as connection:
        found = [
            {
                "worker": worker,
                "event": kind,
                "answer": answer and json.loads(answer),
                "reason": reason,
                "time": created,
            }
            for worker, kind, answer, reason, created in connection.execute(line)
        ]
    return models.TaskReply(task=row.name, state=row.state, reason=row.reason, content=json.loads(row.content),
                            gold=row.gold and json.loads(row.gold), answers=found)  # fmt: skip


@router.post("/tasks/state", status_code=204, response_class=Response)
def set_task_state(given: models.TaskStateRequest, actions: Actions) -> None:
    """Stop a task, or ask it again."""
    actions.set_task_state(given.task, given.state, given.reason)


@router.post("/pause", status_code=204, response_class=Response)
def set_paused(given: models.PauseRequest, actions: Actions) -> None:
    """Give out no more questions, or go on."""
    actions.set_paused(given.paused, given.reason)


@router.get("/consensus")
def read_consensus(
    request: Request,
    _manager: Manager,
    begin: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    most: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
) -> list[models.ConsensusRow]:
    """What the answers to each task come to."""
    service = get_service(request)
    found = service.consensus.snapshot(fresh=True).tasks
    open_tasks = service.campaign.queue.taken
    numbers = service.campaign.task_numbers
    return [
        models.ConsensusRow(task=task, answer=each.answer, confidence=each.confidence, n_answers=each.n_answers,
                            state="open" if numbers[task] in open_tasks else "finished")
        for task, each in list(found.items())[begin : begin + most]
    ]  # fmt: skip


@router.post("/images")
def upload_image(request: Request, image: UploadFile, manager: Manager) -> dict[str, str]:
    """Store an image, written anew; returns the name by which tasks refer to it."""
    campaign = get_service(request).campaign
    name = store_image(image.file.read(), campaign.images)
    campaign.store.log_action(manager, "upload image", name)
    return {"image": name}


@router.get("/export/{table}.{form}", response_class=Response)
def export(
    request: Request,
    manager: Manager,
    table: Literal["labels", "consensus", "workers", "answers", "tasks"],
    form: Literal["csv", "jsonl", "parquet"],
) -> Response:
    """A table of the campaign; `labels` is what `crowdwise aggregate` reads."""
    service = get_service(request)
    content = write_table(export_table(service, table), form)
    service.campaign.store.log_action(manager, "export", f"{table}.{form}")
    headers = {"content-disposition": f'attachment; filename="{table}.{form}"'}
    return Response(content, media_type=FORMATS[form], headers=headers)


@router.get("/export/{tool}/{content}", response_class=Response)
def export_for(request: Request, manager: Manager, tool: Tool, content: Content) -> Response:
    """The answers or the consensus as a file of a labelling tool, which `crowdwise.read_export` reads as well."""
    service = get_service(request)
    written, suffix = export_for_tool(service, tool, content)
    service.campaign.store.log_action(manager, "export", f"{content} for {tool}")
    headers = {"content-disposition": f'attachment; filename="{tool}-{content}.{suffix}"'}
    return Response(written, media_type=CONTENT_TYPES[suffix], headers=headers)


@router.get("/actions")
def list_actions(request: Request, _manager: Manager) -> list[models.ActionRow]:
    """What managers did, the latest first."""
    rows: list[Any] = get_service(request).campaign.store.list_actions()
    return [models.ActionRow(time=row.created, manager=row.manager, action=row.action, subject=row.subject,
                             reason=row.reason) for row in rows]  # fmt: skip
