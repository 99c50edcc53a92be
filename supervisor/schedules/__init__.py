"""Runs by the clock: what a schedule is, when it is due, and who sees to it that it fires once.

verbs        adding, changing and removing schedules, and a run out of turn
pausing      stopping and resuming them, by people and by the kill switch
checks, facts, rights    what can be taken of one, what is known of it, who may work it
cron, cron_words, due_times, clock    when one is due, and how a person would say that
firing, runs    the sweep that fires what is due, and the runs that it asks for
"""

from supervisor.schedules.verbs import HIDDEN, change, create, foresee, remove, run_now, wish

__all__ = ["HIDDEN", "change", "create", "foresee", "remove", "run_now", "wish"]
