/* The version of the program, as --version, traces and packages name it. */
#pragma once

#define ZEROLAB_VERSION "0.1.0"
