"""A simulation of a whole cluster in virtual time: real hubs and clients over models of all servers."""

from tests.simulation.simulation import Simulation, SimulationFailed, simulate

__all__ = ["Simulation", "SimulationFailed", "simulate"]
