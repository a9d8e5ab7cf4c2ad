/* configs/nano.json, assembled into the program, so that plain `zerolab` works from any folder. */
#ifndef ENGINE_CONFIG_BUILTIN_H
#define ENGINE_CONFIG_BUILTIN_H

extern const char config_builtin[], config_builtin_end[];

#endif
