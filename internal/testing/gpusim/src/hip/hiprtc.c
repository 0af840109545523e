// hiprtc.c: the compiler of HIP's texts. A text is compiled for the host, by the C++ compiler that is installed
// (DLX_GPUSIM_CXX, g++ by default): the code is a shared object, which module.c loads.

#include "kernel.h"

#include <ctype.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// The texts around the program's, from the files.
#define TEXT(name, file)                                                                            \
    __asm__(".section .rodata\n" #name ":\n.incbin \"" file "\"\n.byte 0\n.previous\n");            \
    extern const char name[] __attribute__((visibility("hidden")))
TEXT(dlx_hip_prelude_text, "hip/prelude.h");
TEXT(dlx_hip_tail_text, "hip/tail.h");

enum { MAX_OPTIONS = 64 };

struct program {
    char *name, *text;
    char *folder;  // of its headers; NULL without any
    char *log, *code;
    size_t code_size;
    bool compiled;
};

// ---- Calls -----------------------------------------------------------------------------

typedef struct {
    const char *outer;
    hiprtcResult result;
} rtc_scope;

static rtc_scope rtc_enter(const char *call) {
    rtc_scope scope = {.outer = sim_outer};
    pthread_mutex_lock(&sim.mu);
    scope.result = (hiprtcResult)sim_count_outer(call, &sim_outer);
    pthread_mutex_unlock(&sim.mu);
    return scope;
}

static void rtc_leave(rtc_scope *scope) { sim_outer = scope->outer; }

#define RTC_ENTER(name)                                                                     \
    rtc_scope scope __attribute__((cleanup(rtc_leave), unused)) = rtc_enter(#name);         \
    if (scope.result != HIPRTC_SUCCESS) return scope.result

static struct program *program_of(hiprtcProgram handle) {
    pthread_mutex_lock(&sim.mu);
    struct program *p = sim_handle_get(SIM_PROGRAMS, handle, sim_outer);
    pthread_mutex_unlock(&sim.mu);
    return p;
}

const char *hiprtcGetErrorString(hiprtcResult code) {
    static const char *const names[] = {
        "HIPRTC_SUCCESS", "HIPRTC_ERROR_OUT_OF_MEMORY", "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE",
        "HIPRTC_ERROR_INVALID_INPUT", "HIPRTC_ERROR_INVALID_PROGRAM", "HIPRTC_ERROR_INVALID_OPTION",
        "HIPRTC_ERROR_COMPILATION", "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE",
        "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION", "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
        "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID", "HIPRTC_ERROR_INTERNAL_ERROR",
    };
    return (size_t)code < sizeof names / sizeof *names ? names[code] : "HIPRTC_ERROR_UNKNOWN";
}

hiprtcResult hiprtcVersion(int *major, int *minor) {
    RTC_ENTER(hiprtcVersion);
    if (major == NULL || minor == NULL) return HIPRTC_ERROR_INVALID_INPUT;
    *major = 9;
    *minor = 0;
    return HIPRTC_SUCCESS;
}

// ---- Programs --------------------------------------------------------------------------

// remove_folder removes a folder that has only files.
static void remove_folder(char *folder) {
    if (folder == NULL) return;
    pid_t child;
    char *arguments[] = {"rm", "-rf", "--", folder, NULL};
    if (posix_spawnp(&child, "rm", NULL, NULL, arguments, environ) == 0) waitpid(child, NULL, 0);
    free(folder);
}

static void program_free(struct program *p) {
    remove_folder(p->folder);
    free(p->name);
    free(p->text);
    free(p->log);
    free(p->code);
    free(p);
}

// folder_new makes an empty folder; the caller removes it.
static char *folder_new(void) {
    const char *parent = getenv("TMPDIR");
    char *path;
    if (asprintf(&path, "%s/dlx-hiprtc-XXXXXX", parent && *parent ? parent : "/tmp") < 0) return NULL;
    if (mkdtemp(path)) return path;
    free(path);
    return NULL;
}

static bool write_all(int fd, const char *text, size_t n) {
    while (n > 0) {
        ssize_t k = write(fd, text, n);
        if (k <= 0) return false;
        text += k;
        n -= (size_t)k;
    }
    return true;
}

static bool write_header(const char *folder, const char *name, const char *text) {
    char path[4096];
    if (*name == 0 || strchr(name, '/') || (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write_all(fd, text, strlen(text));
    if (fd >= 0) close(fd);
    return ok;
}

hiprtcResult hiprtcCreateProgram(hiprtcProgram *out, const char *text, const char *name, int n, const char **headers,
                                 const char **names) {
    RTC_ENTER(hiprtcCreateProgram);
    if (out == NULL || text == NULL || n < 0 || (n > 0 && (headers == NULL || names == NULL)))
        return HIPRTC_ERROR_INVALID_INPUT;
    struct program *p = calloc(1, sizeof *p);
    if (p == NULL) return HIPRTC_ERROR_OUT_OF_MEMORY;
    p->text = strdup(text);
    p->name = strdup(name && *name ? name : "program");
    p->log = strdup("");
    bool ok = p->text && p->name && p->log && (n == 0 || (p->folder = folder_new()) != NULL);
    for (int i = 0; i < n && ok; i++) ok = headers[i] && names[i] && write_header(p->folder, names[i], headers[i]);
    pthread_mutex_lock(&sim.mu);
    *out = ok ? sim_handle_new(SIM_PROGRAMS, p) : NULL;
    if (*out) sim_live(SIM_PROGRAMS, 1);
    pthread_mutex_unlock(&sim.mu);
    if (*out) return HIPRTC_SUCCESS;
    program_free(p);
    return HIPRTC_ERROR_PROGRAM_CREATION_FAILURE;
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram *handle) {
    RTC_ENTER(hiprtcDestroyProgram);
    if (handle == NULL) return HIPRTC_SUCCESS;
    struct program *p = program_of(*handle);
    if (p == NULL) return HIPRTC_ERROR_INVALID_PROGRAM;
    pthread_mutex_lock(&sim.mu);
    sim_handle_drop(*handle);
    sim_live(SIM_PROGRAMS, -1);
    pthread_mutex_unlock(&sim.mu);
    program_free(p);
    *handle = NULL;
    return HIPRTC_SUCCESS;
}

// ---- Compiling -------------------------------------------------------------------------

// file_text returns what a file holds, with a 0 behind it, and its size.
static char *file_text(int fd, size_t *size) {
    struct stat st;
    if (fstat(fd, &st) != 0) return NULL;
    char *text = malloc((size_t)st.st_size + 1);
    if (text == NULL) return NULL;
    size_t n = 0;
    for (ssize_t k; n < (size_t)st.st_size && (k = pread(fd, text + n, (size_t)st.st_size - n, (off_t)n)) > 0;) n += (size_t)k;
    text[n] = 0;
    if (size) *size = n;
    return text;
}

// run_compiler runs the compiler with a text as its input. The files get its output and its messages.
static bool run_compiler(char **arguments, const char *input, size_t size, int output, int messages) {
    int in = memfd_create("dlx hiprtc", MFD_CLOEXEC);
    if (in < 0) return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, messages, 2);
    pid_t child;
    int status = -1;
    bool ok = write_all(in, input, size) && lseek(in, 0, SEEK_SET) == 0 &&
              posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ) == 0 &&
              waitpid(child, &status, 0) == child && status == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(in);
    return ok;
}

static const char *skip_space(const char *s) {
    while (isspace((unsigned char)*s)) s++;
    return s;
}

// skip_parentheses goes behind the parentheses that s begins with.
static const char *skip_parentheses(const char *s) {
    int depth = 0;
    do {
        depth += *s == '(' ? 1 : *s == ')' ? -1 : 0;
        s += *s != 0;
    } while (depth > 0 && *s);
    return s;
}

// kernel_name finds the name of a function behind the attribute that makes it a kernel: the first name that
// parentheses follow, apart from other attributes.
static const char *kernel_name(const char *s, size_t *length) {
    for (;;) {
        s = skip_space(s);
        if (!isalpha((unsigned char)*s) && *s != '_') {
            if (*s == 0 || *s == ';' || *s == '{') return NULL;
            s++;
            continue;
        }
        const char *name = s;
        while (isalnum((unsigned char)*s) || *s == '_') s++;
        *length = (size_t)(s - name);
        s = skip_space(s);
        if (*s != '(') continue;
        if (strncmp(name, "__attribute__", *length) != 0 || *length != 13) return name;
        s = skip_parentheses(s);
    }
}

// describe writes the description of the kernels of a text, which the preprocessor has seen, behind it.
static void describe(FILE *to, const char *text, const char *architecture) {
    static const char mark[] = "__attribute__((global))";
    fprintf(to, "\n%s\nstatic const dlx_hip_kernel dlx_hip_all[] = {\n", dlx_hip_tail_text);
    for (const char *s = text; (s = strstr(s, mark)) != NULL;) {
        s += sizeof mark - 1;
        size_t n;
        const char *name = kernel_name(s, &n);
        if (name) fprintf(to, "DLX_HIP_KERNEL(%.*s),\n", (int)n, name);
    }
    fprintf(to,
            "{nullptr, nullptr, nullptr}};\nextern \"C\" __attribute__((visibility(\"default\"))) dlx_hip_table dlx_hip_kernels;\n"
            "dlx_hip_table dlx_hip_kernels = {\"%s\", dlx_hip_all, &__ehdr_start, &_end, &dlx_hip_now};\n",
            architecture);
}

// request is what the options ask for.
struct request {
    char architecture[64];
    char *pass[MAX_OPTIONS];  // options for the compiler
    int count;
};

static bool read_options(struct request *r, int n, const char **options) {
    static const char *const passed[] = {"-D", "-U", "-I", "-std=", "-O", "-W"};
    static const char *const architectures[] = {"--offload-arch=", "--gpu-architecture="};
    snprintf(r->architecture, sizeof r->architecture, "%s", hip_architecture());
    for (int i = 0; i < n; i++) {
        const char *o = options[i];
        bool known = false;
        if (o == NULL) return false;
        for (size_t k = 0; k < sizeof architectures / sizeof *architectures; k++) {
            size_t length = strlen(architectures[k]);
            if (strncmp(o, architectures[k], length) != 0) continue;
            known = true;
            if (strspn(o + length, "abcdefghijklmnopqrstuvwxyz0123456789:+-") != strlen(o + length)) return false;
            snprintf(r->architecture, sizeof r->architecture, "%s", o + length);
        }
        for (size_t k = 0; k < sizeof passed / sizeof *passed && !known; k++)
            if (strncmp(o, passed[k], strlen(passed[k])) == 0) {
                if (r->count == MAX_OPTIONS) return false;
                r->pass[r->count++] = (char *)o;
                known = true;
            }
        if (!known && strncmp(o, "-f", 2) != 0 && strncmp(o, "-m", 2) != 0) return false;
    }
    return true;
}

// compile compiles a program: the preprocessor shows its kernels, then the compiler makes the code.
static bool compile(struct program *p, struct request *request, int messages) {
    const char *chosen = getenv("DLX_GPUSIM_CXX");
    char *compiler = (char *)(chosen && *chosen ? chosen : "g++");
    char *arguments[MAX_OPTIONS + 24], *folder = folder_new(), *output = NULL, *source = NULL, *seen = NULL, *whole = NULL;
    char include[4096] = "-I.";
    size_t size = 0;
    int n = 0, text = memfd_create("dlx hiprtc", MFD_CLOEXEC), code = -1;
    bool ok = folder && text >= 0 && asprintf(&output, "%s/code.so", folder) > 0 &&
              asprintf(&source, "%s\n#line 1 \"%s\"\n%s\n", dlx_hip_prelude_text, p->name, p->text) > 0;
    if (p->folder) snprintf(include, sizeof include, "-I%s", p->folder);
    char *first[] = {compiler, "-x", "c++", "-std=c++17", "-w", "-D__HIPCC_RTC__", "-D__HIP_DEVICE_COMPILE__", include};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) arguments[n++] = first[i];
    for (int i = 0; i < request->count; i++) arguments[n++] = request->pass[i];
    arguments[n] = "-E", arguments[n + 1] = "-", arguments[n + 2] = NULL;
    ok = ok && run_compiler(arguments, source, strlen(source), text, messages) && (seen = file_text(text, NULL)) != NULL;
    if (ok) {
        FILE *to = open_memstream(&whole, &size);
        ok = to != NULL;
        if (ok) {
            fputs(seen, to);
            describe(to, seen, request->architecture);
            ok = fclose(to) == 0;
        }
    }
    char *second[] = {"-O1", "-fPIC", "-shared", "-nostdlib", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden",
                      "-fsanitize=kernel-address", "--param", "asan-instrumentation-with-call-threshold=0", "--param",
                      "asan-globals=0", "--param", "asan-stack=0", "-o", output, "-"};
    for (size_t i = 0; i < sizeof second / sizeof *second; i++) arguments[n++] = second[i];
    arguments[n] = NULL;
    ok = ok && run_compiler(arguments, whole, size, messages, messages) && (code = open(output, O_RDONLY | O_CLOEXEC)) >= 0 &&
         (p->code = file_text(code, &p->code_size)) != NULL;
    if (code >= 0) close(code);
    if (text >= 0) close(text);
    free(output);
    free(source);
    free(seen);
    free(whole);
    remove_folder(folder);
    return ok;
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram handle, int n, const char **options) {
    RTC_ENTER(hiprtcCompileProgram);
    struct program *p = program_of(handle);
    if (p == NULL) return HIPRTC_ERROR_INVALID_PROGRAM;
    if (n < 0 || (n > 0 && options == NULL)) return HIPRTC_ERROR_INVALID_INPUT;
    struct request request = {.count = 0};
    if (!read_options(&request, n, options)) return HIPRTC_ERROR_INVALID_OPTION;
    int messages = memfd_create("dlx hiprtc", MFD_CLOEXEC);
    if (messages < 0) return HIPRTC_ERROR_OUT_OF_MEMORY;
    free(p->code);
    p->code = NULL;
    p->compiled = compile(p, &request, messages);
    char *log = file_text(messages, NULL);
    close(messages);
    if (log == NULL) return HIPRTC_ERROR_OUT_OF_MEMORY;
    free(p->log);
    p->log = log;
    return p->compiled ? HIPRTC_SUCCESS : HIPRTC_ERROR_COMPILATION;
}

#define GET(name, type, check, body)                               \
    hiprtcResult name(hiprtcProgram handle, type *out) {           \
        RTC_ENTER(name);                                           \
        struct program *p = program_of(handle);                    \
        if (p == NULL) return HIPRTC_ERROR_INVALID_PROGRAM;        \
        if (out == NULL) return HIPRTC_ERROR_INVALID_INPUT;        \
        if (!(check)) return HIPRTC_ERROR_INVALID_PROGRAM;         \
        body;                                                      \
        return HIPRTC_SUCCESS;                                     \
    }
GET(hiprtcGetProgramLogSize, size_t, true, *out = strlen(p->log) + 1)
GET(hiprtcGetProgramLog, char, true, strcpy(out, p->log))
GET(hiprtcGetCodeSize, size_t, p->compiled, *out = p->code_size)
GET(hiprtcGetCode, char, p->compiled, memcpy(out, p->code, p->code_size))
