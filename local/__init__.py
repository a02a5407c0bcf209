"""The local engine: the synthesized template and the real handlers on one machine, stand-ins for the rest."""
