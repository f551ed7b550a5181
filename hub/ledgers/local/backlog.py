"""Jobs that wait for room in the writer's queue: the back-pressure of the store."""

from collections import deque

from hedwig.hub.ledgers.local.jobs import RecordJob

__all__ = ["Backlog"]


class Backlog:
    """Jobs in the order in which they arrived. A withdrawn or failed job counts no more. For one event loop."""

    def __init__(self) -> None:
        self._jobs: deque[RecordJob] = deque()
        self._by_ledger: dict[int, deque[RecordJob]] = {}

    def __bool__(self) -> bool:
        return self.first() is not None

    def put(self, job: RecordJob) -> None:
        self._jobs.append(job)
        if job.record is not None:
            self._by_ledger.setdefault(job.record.ledger_id, deque()).append(job)

    def first(self) -> RecordJob | None:
        """Return the next job, None if there is none."""
        while self._jobs and self._jobs[0].withdrawn:
            self._jobs.popleft()
        return self._jobs[0] if self._jobs else None

    def take(self) -> RecordJob:
        """Remove and return the first job. The caller knows from `first` that there is one."""
        job = self._jobs.popleft()
        self._forget(job)
        return job

    def withdraw(self, job: RecordJob) -> bool:
        """Remove a job; return False if it is not here."""
        if job.withdrawn or job.record is None or job not in self._by_ledger.get(job.record.ledger_id, ()):
            return False
        job.withdrawn = True
        return True

    def behind(self, job: RecordJob) -> list[RecordJob]:
        """Remove the later jobs on the ledger of a withdrawn job, but no upkeep jobs, and return them."""
        assert job.record is not None
        jobs = self._by_ledger.pop(job.record.ledger_id)
        index = jobs.index(job)
        gone = [other for other in list(jobs)[index + 1 :] if not other.is_upkeep]
        for other in gone:
            other.withdrawn = True
        kept = deque(other for other in jobs if not other.withdrawn)
        if kept:
            self._by_ledger[job.record.ledger_id] = kept
        return gone

    def drop(self, *, all_kinds: bool) -> list[RecordJob]:
        """Remove and return all jobs, or all but those that the writer runs even on a full disk."""
        dropped = [job for job in self._jobs if not job.withdrawn and (all_kinds or not job.is_upkeep)]
        kept = [job for job in self._jobs if not job.withdrawn and not all_kinds and job.is_upkeep]
        self._jobs.clear()
        self._by_ledger.clear()
        for job in dropped:
            job.withdrawn = True
        for job in kept:
            self.put(job)
        return dropped

    def _forget(self, job: RecordJob) -> None:
        if job.record is None:
            return
        jobs = self._by_ledger[job.record.ledger_id]
        jobs.remove(job)
        if not jobs:
            del self._by_ledger[job.record.ledger_id]
