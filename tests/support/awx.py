# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of AWX's API that its collection needs to set up jobs, on loopback.

It refuses what AWX 24.6.1 refuses. The fields are those of awx/api/serializers.py, and the endpoints those of
awx/api/urls. Each rule names its place in https://github.com/ansible/awx/tree/24.6.1. The rules were compared with the
answers of AWX 24.6.1 itself, as ``REFUSED`` in tests/integration/test_awx.py has them.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import threading
import typing as t
from urllib.parse import parse_qsl, urlsplit

import jinja2

from tests.support.ansible import ROOT

Json = dict[str, t.Any]

_COMMON = {"name", "description"}
_ASKED = {"survey_enabled", "allow_simultaneous", "extra_vars", "inventory", "limit", "scm_branch", "job_tags"}
FIELDS: dict[str, set[str]] = {
    "organizations": _COMMON | {"max_hosts", "default_environment"},
    "execution_environments": _COMMON | {"organization", "image", "credential", "pull"},
    "credential_types": _COMMON | {"kind", "managed", "inputs", "injectors"},
    "credentials": _COMMON | {"organization", "credential_type", "inputs", "user", "team"},
    "projects": _COMMON
    | {"organization", "scm_type", "scm_url", "scm_branch", "scm_update_on_launch", "scm_update_cache_timeout"}
    | {"allow_override", "timeout", "default_environment", "local_path", "credential", "scm_clean"},
    "inventories": _COMMON | {"organization", "kind", "host_filter", "variables", "prevent_instance_group_fallback"},
    "inventory_sources": _COMMON
    | {"inventory", "source", "source_path", "source_project", "overwrite", "overwrite_vars", "update_on_launch"},
    "job_templates": _COMMON
    | _ASKED
    | {"job_type", "project", "playbook", "forks", "verbosity", "execution_environment", "diff_mode", "timeout"}
    | {"job_slice_count", "become_enabled", "use_fact_cache"},
    "workflow_job_templates": _COMMON | _ASKED | {"organization"},
    "workflow_job_template_nodes": {"workflow_job_template", "unified_job_template", "identifier", "extra_data", "type"}
    | {"all_parents_must_converge", "job_type", "limit"},
    "schedules": _COMMON | {"unified_job_template", "rrule", "enabled", "extra_data"},
}
"""The fields that each endpoint takes."""

REFERENCES = {
    "organization": "organizations",
    "credential_type": "credential_types",
    "project": "projects",
    "source_project": "projects",
    "inventory": "inventories",
    "execution_environment": "execution_environments",
    "workflow_job_template": "workflow_job_templates",
    "unified_job_template": "unified_job_templates",
}
APPROVALS = "workflow_approval_templates"
UNIFIED = ("job_templates", "workflow_job_templates", "projects", "inventory_sources", APPROVALS)
LINKS = {
    "organizations": {"galaxy_credentials": "credentials"},
    "job_templates": {"credentials": "credentials"},
    "workflow_job_template_nodes": {
        "credentials": "credentials",
        **dict.fromkeys(("success_nodes", "failure_nodes", "always_nodes"), "workflow_job_template_nodes"),
    },
}
"""What objects can be linked to at each endpoint. An approval has no links: its node has."""
WITH_SURVEY = ("job_templates", "workflow_job_templates")
GALAXY = "Ansible Galaxy"
"""The credential that each AWX has from the beginning (awx/main/management/commands/create_preload_data.py)."""
ANSWERS = {"text": str, "textarea": str, "password": str, "multiplechoice": str, "integer": int, "float": float}
FORBIDDEN = {
    *("VIRTUAL_ENV", "PATH", "PYTHONPATH", "JOB_ID", "INVENTORY_ID", "INVENTORY_SOURCE_ID", "INVENTORY_UPDATE_ID"),
    *("AD_HOC_COMMAND_ID", "REST_API_URL", "REST_API_TOKEN", "MAX_EVENT_RES", "CALLBACK_QUEUE", "CALLBACK_CONNECTION"),
    *("CACHE", "JOB_CALLBACK_DEBUG", "INVENTORY_HOSTVARS", "AWX_HOST", "PROJECT_REVISION", "SUPERVISOR_CONFIG_PATH"),
}
"""ENV_BLOCKLIST in awx/main/constants.py."""
PLAYBOOKS = {path.name for path in (ROOT / "examples" / "awx" / "project").glob("*.yml")}
"""What AWX finds in the project."""


class RefusedError(Exception):
    """What AWX answers with status 400."""


class Awx:
    """A running AWX. ``objects`` has everything that it keeps, ``changes`` each request that changed something."""

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[str, dict[int, Json]] = {endpoint: {} for endpoint in (*FIELDS, APPROVALS)}
        galaxy = {"id": 9001, "name": GALAXY, "type": "credential", "url": "/api/v2/credentials/9001/", "inputs": {}}
        self.objects["credentials"][9001] = galaxy
        self.secrets: dict[str, Json] = {}
        self.surveys: dict[int, Json] = {}
        self.links: dict[tuple[int, str], list[int]] = {}
        self.changes: list[tuple[str, str]] = []

    def named(self, endpoint: str) -> dict[str, Json]:
        return {item.get("name", item.get("identifier")): item for item in self.objects[endpoint].values()}

    def of(self, endpoint: str) -> dict[int, Json]:
        if endpoint == "unified_job_templates":
            return {number: item for kind in UNIFIED for number, item in self.objects[kind].items()}
        return self.objects[endpoint]

    def get(self, parts: list[str], query: dict[str, str]) -> Json:
        if len(parts) == 1:
            found = [item for item in self.of(parts[0]).values() if _fits(item, query)]
            return {"count": len(found), "next": None, "results": found}
        number = int(parts[1])
        if len(parts) == 2:
            return self.of(parts[0])[number]
        if parts[2] == "survey_spec" and parts[0] in WITH_SURVEY:
            return self.surveys.get(number, {})
        assert_linked(parts)
        linked = self.links.get((number, parts[2]), [])
        return {"count": len(linked), "next": None, "results": [{"id": each} for each in linked]}

    def post(self, parts: list[str], body: Json) -> tuple[int, Json]:
        if len(parts) == 1:
            return 201, self.create(parts[0], body)
        number, what = int(parts[1]), parts[2]
        if what == "survey_spec" and parts[0] in WITH_SURVEY:
            check_survey(body)
            self.surveys[number] = body
            return 200, {}
        if what == "create_approval_template":
            made = self.create(APPROVALS, body)
            node = self.objects["workflow_job_template_nodes"][number]
            node["unified_job_template"] = made["id"]
            node["related"]["unified_job_template"] = made["url"]
            return 201, made
        assert_linked(parts)
        if body["id"] not in self.objects[LINKS[parts[0]][what]]:
            raise RefusedError(f"There is no {what} {body['id']}.")
        linked = self.links.setdefault((number, what), [])
        linked.remove(body["id"]) if body.get("disassociate") else linked.append(body["id"])
        return 204, {}

    def create(self, endpoint: str, body: Json) -> Json:
        self.check(endpoint, body)
        number = sum(map(len, self.objects.values()))
        url = f"/api/v2/{endpoint}/{number}/"
        links = [*LINKS.get(endpoint, ()), *(["survey_spec"] if endpoint in WITH_SURVEY else [])]
        related = {what: f"{url}{what}/" for what in links}
        item = {**body, "id": number, "url": url, "type": endpoint.removesuffix("s"), "related": related}
        if endpoint == "projects":  # As if it had been fetched already.
            item |= {"status": "successful", "scm_revision": "5be2788", "summary_fields": {}}
        self.objects[endpoint][number] = item
        return self.sealed(item)

    def patch(self, parts: list[str], body: Json) -> Json:
        self.check(parts[0], body)
        self.of(parts[0])[int(parts[1])].update(body)
        return self.sealed(self.of(parts[0])[int(parts[1])])

    def check(self, endpoint: str, body: Json) -> None:
        """Refuse what AWX's serializers refuse."""
        if unknown := body.keys() - FIELDS.get(endpoint, _COMMON | {"timeout"}):
            raise RefusedError(f"{endpoint} has no field {', '.join(sorted(unknown))}.")
        for field in body.keys() & REFERENCES.keys():
            if body[field] not in self.of(REFERENCES[field]):
                raise RefusedError(f"{field}: there is no object {body[field]!r}.")
        if endpoint == "schedules":
            check_rule(body["rrule"])
            template = body["unified_job_template"]
            asked = self.surveys.get(template, {}).get("spec", []) if self._has_survey(template) else []
            check_answers(asked, body.get("extra_data", {}))
        if endpoint == "credential_types":
            check_type(body["inputs"], body["injectors"])
        if endpoint == "job_templates" and body["playbook"] not in PLAYBOOKS:
            raise RefusedError("Playbook not found for project.")

    def _has_survey(self, template: int) -> bool:
        return bool(self.of("unified_job_templates")[template].get("survey_enabled"))

    def sealed(self, item: Json) -> Json:
        """Return an object, and show no more of its secrets than AWX does."""
        if item["type"] == "credential":
            self.secrets[item["name"]] = item["inputs"]
            item["inputs"] = dict.fromkeys(item["inputs"], "$encrypted$")
        return item


def _fits(item: Json, query: dict[str, str]) -> bool:
    wanted = {key: value for key, value in query.items() if not key.startswith("or__")}
    either = {key.removeprefix("or__"): value for key, value in query.items() if key.startswith("or__")}
    if either and not any(str(item.get(key)) == value for key, value in either.items()):
        return False
    # A job template has the organization of its project.
    return all(str(item.get(key)) == value for key, value in wanted.items() if key in item or key != "organization")


def assert_linked(parts: list[str]) -> None:
    """Answer 404 for what objects of this kind cannot be linked to, as a KeyError."""
    LINKS[parts[0]][parts[2]]


def check_survey(spec: Json) -> None:
    """Refuse a survey as JobTemplateSurveySpec._validate_spec_data in awx/api/views/__init__.py does."""
    if not (isinstance(spec.get("name"), str) and isinstance(spec.get("description"), str) and spec.get("spec")):
        raise RefusedError("A survey has a name, a description and questions.")
    asked: set[str] = set()
    for question in spec["spec"]:
        for field, kind in (("type", str), ("question_name", str), ("variable", str), ("required", bool)):
            if not isinstance(question.get(field), kind):
                raise RefusedError(f"{field} of {question} is not a {kind.__name__}.")
        if question["variable"] in asked or question["type"] not in ANSWERS:
            raise RefusedError(f"{question} is asked twice or has an unknown type.")
        asked.add(question["variable"])
        default = question.get("default", "")
        if default != "" and not isinstance(default, ANSWERS[question["type"]]):
            raise RefusedError(f"The default of {question} has another type.")
        if any(question.get(limit) is not None and not isinstance(question[limit], int) for limit in ("min", "max")):
            raise RefusedError(f"A limit of {question} is no integer.")
        if question["type"] in ("multiplechoice", "multiselect"):
            check_choices(question)


def check_choices(question: Json) -> None:
    """Refuse choices as the same view does: they are there, and the default is one of them, and only one."""
    if "choices" not in question:
        raise RefusedError(f"{question} has no choices.")
    default = question.get("default", [])
    chosen = default.splitlines() if isinstance(default, str) else default
    if len(chosen) > 1 and question["type"] == "multiplechoice":
        raise RefusedError(f"{question} has more than one default.")
    if any(each not in question["choices"] for each in chosen):
        raise RefusedError(f"The default of {question} is no choice.")


def check_answers(questions: list[Json], answers: Json) -> None:
    """Refuse answers of a schedule as SurveyJobTemplateMixin in awx/main/models/mixins.py does.

    A question that must be answered has no answer without one, even if it has a default.
    """
    variables = [question["variable"] for question in questions]
    if unknown := sorted(answers.keys() - set(variables)):
        raise RefusedError(f"Variables {', '.join(unknown)} are not allowed on launch.")
    for question in questions:
        if question["variable"] not in answers:
            if question["required"]:
                raise RefusedError(f"{question['variable']!r} value missing")
            continue
        answer = answers[question["variable"]]
        if not isinstance(answer, ANSWERS[question["type"]]):
            raise RefusedError(f"The answer {answer!r} to {question['variable']} has another type.")
        if question["type"] == "multiplechoice" and answer not in question["choices"]:
            raise RefusedError(f"The answer {answer!r} to {question['variable']} is no choice.")
        if isinstance(answer, str) and len(answer) < (question.get("min") or 0):
            raise RefusedError(f"The answer {answer!r} to {question['variable']} is too short.")


def check_rule(rule: str) -> None:
    """Refuse a rule of a schedule as SchedulePreviewSerializer.validate_rrule in awx/api/serializers.py does."""
    begins = re.findall(r"DTSTART(?:;[^:]+)?:[0-9]+T[0-9]+Z?", rule)
    if len(begins) != 1 or re.search(r"DTSTART:[0-9]+T[0-9]+ ", rule):
        raise RefusedError(f"{rule} has not one DTSTART with a zone.")
    if "rrule:" not in rule.lower() or re.search(r"(?i)(exdate|rdate):", rule):
        raise RefusedError(f"{rule} has no RRULE, or has EXDATE or RDATE.")
    for each in re.findall(r"RULE:[^\s]*", rule):
        counts_days = re.search(r"BYDAY[:=][0-9]+[a-zA-Z]{2}", each)
        if "interval" not in each.lower() or "secondly" in each.lower() or counts_days:
            raise RefusedError(f"{each} has no INTERVAL, repeats every second, or counts days.")
        if ("COUNT" in each and "UNTIL" in each) or int((re.findall(r"COUNT=([0-9]+)", each) or ["0"])[0]) > 999:
            raise RefusedError(f"{each} ends in a way that AWX does not know.")


INPUT = {
    *("type", "format", "choices", "id", "label", "help_text"),
    *("multiline", "secret", "ask_at_runtime", "default"),
}
"""What a field of a type of credentials may have."""


def check_type(inputs: Json, injectors: Json) -> None:
    """Refuse a type as CredentialTypeInputField and CredentialTypeInjectorField in awx/main/fields.py do."""
    if inputs.keys() - {"fields", "required"} or injectors.keys() - {"file", "env", "extra_vars"}:
        raise RefusedError("The type has something else than fields, required fields and injectors.")
    names = [field.get("id", "") for field in inputs["fields"]]
    if len(names) > len(set(names)) or not all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name) for name in names):
        raise RefusedError("A field has no name of its own that is one for a variable.")
    if "tower" in names or any(field.keys() - INPUT or "label" not in field for field in inputs["fields"]):
        raise RefusedError("A field of the inputs is not known.")
    for field in inputs["fields"]:
        if field.get("type", "string") not in ("string", "boolean") or (
            field.get("type") == "boolean" and field.keys() & {"choices", "multiline", "format", "secret"}
        ):
            raise RefusedError(f"{field} has what its type cannot have.")
    check_injectors(names, injectors)


def check_injectors(names: list[str], injectors: Json) -> None:
    """Refuse variables that AWX reserves, and templates that use what is not there."""
    if not all(re.fullmatch(r"template(\.[a-zA-Z_]\w*)?", name) for name in injectors.get("file", {})):
        raise RefusedError("A file of the injectors has another name than template.")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)
    tower = {"filename": "x"} if "template" in injectors.get("file", {}) else {}
    for name, template in (injectors.get("env", {}) | injectors.get("file", {})).items():
        if name.startswith("ANSIBLE_") or name in FORBIDDEN:
            raise RefusedError(f"The variable {name} is not allowed.")
        try:
            environment.from_string(template).render({**dict.fromkeys(names, "x"), "tower": tower})
        except jinja2.TemplateError as e:
            raise RefusedError(f"{name} uses an undefined field ({e})") from None


def _handler(awx: Awx) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def _serve(self) -> None:
            url = urlsplit(self.path)
            parts = url.path.removeprefix("/api/v2/").strip("/").split("/")
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            if self.headers.get("Authorization") != "Bearer t0ken":
                self._answer(401, {"detail": "Authentication credentials were not provided."})
                return
            try:
                self._answer(*self._done(parts, dict(parse_qsl(url.query)), body))
            except RefusedError as e:
                self._answer(400, {"__all__": [str(e)]})
            except KeyError:
                self._answer(404, {"detail": "Not found."})

        def _done(self, parts: list[str], query: dict[str, str], body: Json) -> tuple[int, Json]:
            if self.command == "GET":
                return 200, awx.get(parts, query)
            awx.changes.append((self.command, "/".join(parts)))
            return (200, awx.patch(parts, body)) if self.command == "PATCH" else awx.post(parts, body)

        def _answer(self, status: int, body: Json) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815 - http.server calls these names

    return Handler


@contextlib.contextmanager
def running_awx() -> t.Iterator[Awx]:
    """Run the API for the duration of a block. Its token is ``t0ken``."""
    awx = Awx()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(awx))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    awx.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield awx
    finally:
        server.shutdown()
        server.server_close()
