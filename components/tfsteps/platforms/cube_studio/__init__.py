"""Steps of cube-studio's pipelines: `python -m tfsteps.platforms.cube_studio` is the program of its job template."""
