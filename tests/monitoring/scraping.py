"""Answers of the addresses with metrics, read by prometheus-client's own parser."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from shared import metrics_server

Count = Callable[..., float]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(port: int) -> Samples:
    """Return the value of each sample by its name and labels."""
    answer = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=30)
    assert answer.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """Return the value of a sample, 0 if there is none."""
    return samples.get((name, frozenset(labels.items())), 0)


@contextmanager
def counting() -> Iterator[Count]:
    """Count what this process does in the block; yields a function that returns a sample's value."""
    known = metrics_server.registry()
    try:
        yield lambda name, **labels: known.get_sample_value(name, labels) or 0
    finally:
        metrics_server.stop_counting()


def answers(port: int) -> bool:
    """Tell whether a process listens on a port."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
