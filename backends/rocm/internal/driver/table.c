//go:build rocm && linux && cgo

#include "table.h"

struct dlx_hip dlx_hip;
struct dlx_hiprtc dlx_hiprtc;
int dlx_hip_version;

#define DLX_ENTRY(name) {#name, (void **)&dlx_hip.name},
#define DLX_OWN_ENTRY(name, parameters) DLX_ENTRY(name)
#define DLX_COMPILER_ENTRY(name, parameters) {#name, (void **)&dlx_hiprtc.name},

const struct dlx_entry dlx_hip_entries[] = {DLX_HIP_FUNCTIONS(DLX_ENTRY) DLX_HIP_FUNCTIONS_OF_VERSIONS(DLX_OWN_ENTRY)};
const struct dlx_entry dlx_hiprtc_entries[] = {DLX_HIPRTC_FUNCTIONS(DLX_COMPILER_ENTRY)};
const int dlx_hip_count = sizeof dlx_hip_entries / sizeof *dlx_hip_entries;
const int dlx_hiprtc_count = sizeof dlx_hiprtc_entries / sizeof *dlx_hiprtc_entries;

static int not_there(void) { return hipErrorNotSupported; }
void *const dlx_hip_missing = (void *)not_there;
