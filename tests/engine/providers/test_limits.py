from engine.providers.limits import MinuteLimits


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_requests_per_minute() -> None:
    clock = Clock()
    limits = MinuteLimits(2, None, clock)
    assert (limits.book(1), limits.book(1)) == (0.0, 0.0)
    clock.now = 20.0
    assert limits.book(1) == 40.0
    clock.now = 60.0
    assert (limits.book(1), limits.book(1)) == (0.0, 0.0)
    assert limits.book(1) == 60.0


def test_tokens_per_minute() -> None:
    clock = Clock()
    limits = MinuteLimits(None, 100, clock)
    assert limits.book(60) == 0.0
    clock.now = 10.0
    assert limits.book(40) == 0.0
    assert limits.book(1) == 50.0
    clock.now = 60.0
    # The first 60 no longer count, the 40 still do.
    assert limits.book(60) == 0.0
    assert limits.book(1) == 10.0


def test_a_call_larger_than_the_limit_runs_alone() -> None:
    clock = Clock()
    limits = MinuteLimits(None, 100, clock)
    assert limits.book(500) == 0.0
    assert limits.book(1) == 60.0


def test_holding_stops_everything_for_a_while() -> None:
    clock = Clock()
    limits = MinuteLimits(None, None, clock)
    limits.hold(5.0)
    limits.hold(2.0)
    assert limits.book(1) == 5.0
    clock.now = 5.0
    assert limits.book(10_000_000) == 0.0
