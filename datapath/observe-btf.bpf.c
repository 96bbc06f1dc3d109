// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/* The programs of observe.bpf.c for kernels that have their types with them (BTF), from 6.2 on: what can be read there need not be asked for by a call. */
#define KERNEL_TYPES
#include "observe.bpf.c"
