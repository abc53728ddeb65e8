"""The parent's loop where things happen at once."""

import selectors

from hpml.ranks import launch
from hpml.ranks.parent import running


def test_a_rank_whose_channel_ends_in_the_moment_in_which_its_end_is_reported(monkeypatch):
    def at_its_end(key, mask):
        only_read = key.data[0] == "channel" and mask == selectors.EVENT_READ
        return only_read and not running._has_data(key.fileobj)

    class AtOnce(selectors.DefaultSelector):
        """With what the supervisor reports, all channels have something; the supervisor first."""

        def select(self, timeout=None):
            events = super().select(timeout)
            if not any(key.data[0] == "control" for key, _ in events):
                return [event for event in events if not at_its_end(*event)]
            others = [
                (key, selectors.EVENT_READ)
                for key in self.get_map().values()
                if key.data[0] == "channel"
            ]
            control = [event for event in events if event[0].data[0] == "control"]
            return [*control, *others]

    ended = []

    hear = running.Running._hear_supervisor

    def hear_of_ends(self):
        hear(self)
        if self._reports.gone and not ended:  # when its parent ends the launch
            ended.extend(range(self._world_size))
            for rank in ended:
                self._rank_gone(rank, 0)

    monkeypatch.setattr(running.selectors, "DefaultSelector", AtOnce)
    monkeypatch.setattr(running.Running, "_hear_supervisor", hear_of_ends)
    evidence = launch(lambda: 1, 2, proxied=True)
    assert (evidence.diagnosis, evidence.values, ended) == (None, (1, 1), [0, 1])
