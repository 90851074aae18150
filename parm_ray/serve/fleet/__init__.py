"""A fleet on Ray Serve: control plane, front ends, engines."""
