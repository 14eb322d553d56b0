"""Workers without processes: tasks travel as they would, and are done at once by a model in this process."""

import pickle
from concurrent.futures import Future

from segcertify.sampling.tasks import Host


class Here:
    """`segcertify.sampling.tasks.Workers` of this process; remembers its tasks, and how many were asked for ahead."""

    device = "cpu"

    def __init__(self, model, slots=3):
        self.host, self.slots, self.share = Host(model, "cpu"), slots, slots
        self.tasks, self.waiting, self.most = [], 0, 0

    def put(self, array):
        return array

    def close(self):
        pass

    def submit(self, task, *arrays, about=""):
        self.tasks.append(task)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        return _Late(self, pickle.loads(pickle.dumps((task, arrays))))


class _Late(Future):
    """An answer that is made when it is asked for."""

    def __init__(self, workers, work):
        super().__init__()
        self._workers, self._work = workers, work

    def result(self, timeout=None):
        if not self.done():
            self._workers.waiting -= 1
            task, arrays = self._work
            try:
                self.set_result(pickle.loads(pickle.dumps(task(self._workers.host, *arrays))))
            except Exception as error:
                self.set_exception(error)
        return super().result(timeout)
