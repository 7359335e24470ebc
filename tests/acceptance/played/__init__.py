"""Whole sessions of a competent model: rules that react to what they are shown, on the real wires and a loopback web."""
