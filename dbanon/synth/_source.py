"""The network that a plan is generated on, and the words by which it is generated again."""

import numpy as np

from dbanon.options.generating import Plan
from dbanon.synth import _network


def read_network(plan: Plan) -> _network.Network:
    """Read the network, or make the built-in city."""
    if plan.nodes is None or plan.edges is None:
        return _network.make_city(np.random.default_rng(plan.seed), plan.blocks, lon=plan.lon, lat=plan.lat)
    return _network.read(plan.nodes, plan.edges, srid=plan.srid, lon=plan.lon, lat=plan.lat, limits_kmh=plan.limits_kmh)


def describe_source(plan: Plan, network: _network.Network, first: int) -> str:
    """Describe what rows were generated from, so that they can be generated again."""
    fields = {
        "seed": plan.seed, "network": network.name, "objects": plan.objects, "first": first,
        "instants": plan.instants, "step_s": plan.step_s, "start_s": plan.start_s,
        "whole_share": plan.whole_share, "destinations": plan.destinations,
        "requests_per_subject": plan.requests_per_subject,
    }  # fmt: skip
    if plan.nodes is None:
        fields["blocks"] = plan.blocks
    if plan.quasi_identifiers is not None:
        fields["quasi_identifiers"] = plan.quasi_identifiers
        fields["quasi_identifier_size"] = plan.quasi_identifier_size
        fields["quasi_identifier_overlap"] = plan.quasi_identifier_overlap
    place = {
        "calls_per_day": plan.calls_per_day,
        "pois": plan.pois or None,
        "stations": plan.stations or None,
        "srid": plan.srid,
        "lon": plan.lon,
        "lat": plan.lat,
        "limits_kmh": plan.limits_kmh,
    }
    fields.update({name: value for name, value in place.items() if value is not None})
    return "synth " + ", ".join(f"{name}={value}" for name, value in fields.items())
