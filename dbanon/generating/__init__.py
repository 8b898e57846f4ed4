"""The parts of the generator: streets, ways, wishes; `dbanon.synth` writes what they make."""
