"""The supervisor's paths below `/api/nhi/`. No slash at the end."""

from django.urls import path

from common.api import path_converters  # noqa: F401 - its converter registers itself
from supervisor.api import agents, executions, schedules, sessions

AGENT, EXECUTION = "supervisor/agents/<id:agent_id>", "supervisor/executions/<id:execution_id>"
SESSION = "supervisor/sessions/<id:session_id>"
SCHEDULE = "supervisor/schedules/<id:schedule_id>"

urlpatterns = [
    path("supervisor/agents", agents.Agents.as_view()),
    path(AGENT, agents.OneAgent.as_view()),
    path(f"{AGENT}/enable", agents.Enable.as_view()),
    path(f"{AGENT}/disable", agents.Disable.as_view()),
    path(f"{AGENT}/execute", agents.Execute.as_view()),
    path(f"{AGENT}/status", agents.Status.as_view()),
    path("supervisor/executions", executions.Executions.as_view()),
    path(EXECUTION, executions.OneExecution.as_view()),
    path(f"{EXECUTION}/wait", executions.Wait.as_view()),
    path(f"{EXECUTION}/output", executions.Output.as_view()),
    path(f"{EXECUTION}/cancel", executions.Cancel.as_view()),
    path("supervisor/schedules", schedules.Schedules.as_view()),
    path("supervisor/schedules/preview", schedules.Preview.as_view()),
    path(SCHEDULE, schedules.OneSchedule.as_view()),
    path(f"{SCHEDULE}/run", schedules.Run.as_view()),
    path(f"{SCHEDULE}/pause", schedules.Pause.as_view()),
    path(f"{SCHEDULE}/resume", schedules.Resume.as_view()),
    path(f"{SCHEDULE}/fires", schedules.Fires.as_view()),
    path("supervisor/sessions", sessions.Sessions.as_view()),
    path(SESSION, sessions.OneSession.as_view()),
    path(f"{SESSION}/messages", sessions.Messages.as_view()),
    path(f"{SESSION}/close", sessions.Close.as_view()),
]
