// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/* The programs of observe.bpf.c for kernels that provide their types (BTF), from 6.2: fields can be read directly instead of by helper calls. */
#define KERNEL_TYPES
#include "observe.bpf.c"
