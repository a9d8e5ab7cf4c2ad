/* The version of the program, as --version, traces and packages name it. */
#ifndef ENGINE_BASE_VERSION_H
#define ENGINE_BASE_VERSION_H

#define ZEROLAB_VERSION "0.1.0"

#endif
