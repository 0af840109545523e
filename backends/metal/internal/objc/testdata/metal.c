// A library that stands for the Objective-C runtime and Metal in tests on Linux. Its methods are functions of C with the
// types of Apple's headers, which objc_msgSend calls as on a Mac: so a test that calls it finds arguments and results
// that are passed in another way than the processor's C compiler does. It counts all objects, and ends the process if
// one is used after its last owner has released it, and if an object is autoreleased without a pool.
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct object *id;
typedef const char *SEL;
struct size { unsigned long width, height, depth; };
struct block { void *isa; int flags, reserved; void (*invoke)(struct block *, id); void *descriptor; long count; };
struct class { const char *name, *protocol; struct { SEL name; void *function; } methods[24]; };

// An operation of a command buffer.
struct operation {
  enum { wait, signal, copy, run } kind;
  id a, b;
  unsigned long x, y, n, index;
  struct size groups, threads;
  unsigned char bytes[128];
};

struct object {
  struct class *class;
  long count;
  id dead; // the object that died before
  union {
    char *text;                                                        // string, library, function, pipeline
    struct { id devices[2]; } array;
    struct { id domain, description; long code; } error;
    struct { char *bytes; unsigned long length, mode; id device; bool owned; struct block *deallocator; } buffer;
    id device;                                                         // of a queue
    struct { struct operation *list, next; int n, status; id error; struct block *handler; id pipeline; } commands;
    struct { id commands; } encoder;
    uint64_t value;                                                    // of an event
  };
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long live;
static id dead;

static void fail(const char *what, const char *name) {
  fprintf(stderr, "metal.c: %s: %s\n", what, name);
  abort();
}

// Objects, owners and pools.

static id make(struct class *c) {
  id o = calloc(1, sizeof *o);
  o->class = c, o->count = 1;
  __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
  return o;
}

id objc_retain(id o) {
  if (o && __atomic_add_fetch(&o->count, 1, __ATOMIC_SEQ_CST) < 2) fail("retained after its end", o->class->name);
  return o;
}

static void deallocate(id o);

// A dead object keeps its memory, so that its use is found.
static void bury(id o) {
  deallocate(o);
  pthread_mutex_lock(&mu);
  o->dead = dead, dead = o;
  pthread_mutex_unlock(&mu);
  __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
}
void objc_release(id o) {
  if (!o) return;
  long count = __atomic_sub_fetch(&o->count, 1, __ATOMIC_SEQ_CST);
  if (count < 0) fail("released too often", o->class->name);
  if (count == 0) bury(o);
}

struct pool { struct pool *below; id objects[64]; int n; };
static __thread struct pool *top;

void *objc_autoreleasePoolPush(void) {
  struct pool *p = calloc(1, sizeof *p);
  p->below = top;
  return top = p;
}

void objc_autoreleasePoolPop(void *pool) {
  if (pool != top) fail("a pool was popped", "that is not the last one of the thread");
  struct pool *p = top;
  for (int i = 0; i < p->n; i++) objc_release(p->objects[i]);
  top = p->below;
  free(p);
}

static id autorelease(id o) {
  if (!top) fail("autoreleased without a pool", o->class->name);
  if (top->n == 64) fail("too many autoreleased objects", o->class->name);
  return top->objects[top->n++] = o;
}

long live_objects(void) { return __atomic_load_n(&live, __ATOMIC_SEQ_CST); }

// Foundation.

static struct class string, array, error, device, buffer, queue, commands, blit, compute, event, library, function, pipeline;

static id text(const char *s) {
  id o = make(&string);
  o->text = strdup(s);
  return o;
}
static id string_with(id self, SEL op, const char *s, unsigned long encoding) {
  return encoding == 4 ? autorelease(text(s)) : NULL;
}
static const char *string_utf8(id self, SEL op) { return self->text; }

long listed = 2; // devices
static unsigned long array_count(id self, SEL op) { return listed; }
static id array_at(id self, SEL op, unsigned long i) { return self->array.devices[i]; }

static id error_domain(id self, SEL op) { return self->error.domain; }
static long error_code(id self, SEL op) { return self->error.code; }
static id error_description(id self, SEL op) { return autorelease(objc_retain(self->error.description)); }
static id new_error(const char *domain, long code, const char *description) {
  id e = make(&error);
  e->error.domain = text(domain), e->error.code = code, e->error.description = text(description);
  return e;
}

static bool conforms(id self, SEL op, const char *protocol) { return self->class->protocol && !strcmp(self->class->protocol, protocol); }

// Metal.

static struct object devices[2] = {{&device, 1}, {&device, 1}};

id MTLCopyAllDevices(void) {
  id a = make(&array);
  for (int i = 0; i < 2; i++) a->array.devices[i] = &devices[i];
  return a;
}
id MTLCreateSystemDefaultDevice(void) { return objc_retain(&devices[1]); }
static id device_name(id self, SEL op) { return autorelease(text(self == devices ? "first" : "sécond")); }
static uint64_t device_registry(id self, SEL op) { return 0x1234567890abcdef; }
// A caller must not read more than the byte of the result.
static unsigned long device_unified(id self, SEL op) { return 0xffffff00 | (self == devices); }
static uint64_t device_working_set(id self, SEL op) { return 1ull << 40; }
static unsigned long device_max_length(id self, SEL op) { return 1ul << 20; }
static struct size device_max_threads(id self, SEL op) { return (struct size){1024, 512, 1ul << 33}; }
static unsigned long device_allocated(id self, SEL op) { return 77; }

static id new_buffer(id self, void *bytes, unsigned long length, unsigned long options, bool owned) {
  if (!length || length > 1 << 20) fail("a buffer has a length", "that Metal's validation layer refuses");
  id b = make(&buffer);
  b->buffer.bytes = bytes, b->buffer.length = length, b->buffer.mode = options >> 4 & 15, b->buffer.device = self, b->buffer.owned = owned;
  return b;
}
static id device_new_buffer(id self, SEL op, unsigned long length, unsigned long options) {
  return new_buffer(self, calloc(1, length), length, options, true);
}
static id device_no_copy(id self, SEL op, void *bytes, unsigned long length, unsigned long options, struct block *deallocator) {
  if ((uintptr_t)bytes % 4096 || !deallocator) return NULL;
  id b = new_buffer(self, bytes, length, options, false);
  __atomic_add_fetch(&deallocator->count, 1, __ATOMIC_SEQ_CST);
  b->buffer.deallocator = deallocator;
  return b;
}
static id device_new_queue(id self, SEL op, unsigned long max) {
  if (max != 64) return NULL;
  id q = make(&queue);
  q->device = self;
  return q;
}
static id device_new_event(id self, SEL op) { return make(&event); }
static id device_new_library(id self, SEL op, id source, id options, id *err) {
  if (!source || options || strstr(source->text, "wrong")) {
    *err = autorelease(new_error("MTLLibraryErrorDomain", 3, "the source is wrong"));
    return NULL;
  }
  id l = make(&library);
  l->text = strdup(source->text);
  return l;
}
static id device_new_pipeline(id self, SEL op, id f, id *err) {
  if (!strcmp(f->text, "refused")) {
    *err = autorelease(new_error("CompilerErrorDomain", -2, "refused"));
    return NULL;
  }
  id p = make(&pipeline);
  p->text = strdup(f->text);
  return p;
}
static id library_new_function(id self, SEL op, id name) {
  if (!strstr(self->text, name->text)) return NULL;
  id f = make(&function);
  f->text = strdup(name->text);
  return f;
}
static unsigned long pipeline_max(id self, SEL op) { return 768; }

static id buffer_device(id self, SEL op) { return self->buffer.device; }
static unsigned long buffer_mode(id self, SEL op) { return self->buffer.mode; }
static unsigned long buffer_length(id self, SEL op) { return self->buffer.length; }
static void *buffer_contents(id self, SEL op) {
  if (self->buffer.mode == 2) fail("asked for the contents", "of a private buffer");
  return self->buffer.bytes;
}

static id queue_device(id self, SEL op) { return self->device; }
static id queue_commands(id self, SEL op) { return autorelease(make(&commands)); }

static struct operation *add(id c, int kind, id a, id b) {
  if (c->commands.status) fail("encoded after commit", "command buffer");
  c->commands.list = realloc(c->commands.list, (c->commands.n + 1) * sizeof(struct operation));
  struct operation *o = &c->commands.list[c->commands.n++];
  *o = c->commands.next;
  o->kind = kind, o->a = objc_retain(a), o->b = objc_retain(b);
  return o;
}
static void commands_wait(id self, SEL op, id e, uint64_t value) { add(self, wait, e, NULL)->x = value; }
static void commands_signal(id self, SEL op, id e, uint64_t value) { add(self, signal, e, NULL)->x = value; }
static id encoder(id self, struct class *c) {
  id e = make(c);
  e->encoder.commands = objc_retain(self);
  return autorelease(e);
}
static id commands_blit(id self, SEL op) { return encoder(self, &blit); }
static id commands_compute(id self, SEL op) { return encoder(self, &compute); }
static void commands_handler(id self, SEL op, struct block *b) {
  __atomic_add_fetch(&b->count, 1, __ATOMIC_SEQ_CST);
  self->commands.handler = b;
}
void block_release(struct block *b) {
  if (__atomic_sub_fetch(&b->count, 1, __ATOMIC_SEQ_CST) == 0) {
    __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
    free(b);
  }
}
struct block *block_make(void (*invoke)(struct block *, id)) {
  struct block *b = calloc(1, sizeof *b);
  b->invoke = invoke, b->count = 1;
  __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
  return b;
}

static void carry_out(id c, struct operation *o) {
  char *to = o->a && o->a->class == &buffer ? o->a->buffer.bytes + o->x : NULL;
  switch (o->kind) {
  case wait:
  case signal:
    pthread_mutex_lock(&mu);
    if (o->kind == signal) o->a->value = o->x, pthread_cond_broadcast(&changed);
    while (o->a->value < o->x) pthread_cond_wait(&changed, &mu);
    pthread_mutex_unlock(&mu);
    break;
  case copy:
    memcpy(to, o->b->buffer.bytes + o->y, o->n);
    break;
  case run: // the kernel writes what it was given
    if (!strcmp(o->b->text, "faulty")) {
      c->commands.status = 5, c->commands.error = new_error("MTLCommandBufferErrorDomain", 3, "a page fault");
      return;
    }
    memcpy(to, &o->groups, sizeof o->groups), memcpy(to + 24, &o->threads, sizeof o->threads);
    memcpy(to + 48, &o->index, 8), memcpy(to + 56, o->bytes, o->n);
  }
}
static void *complete(void *argument) {
  id c = argument;
  c->commands.status = 3;
  for (int i = 0; i < c->commands.n && c->commands.status != 5; i++) carry_out(c, &c->commands.list[i]);
  if (c->commands.status != 5) c->commands.status = 4;
  if (c->commands.handler) c->commands.handler->invoke(c->commands.handler, c), block_release(c->commands.handler);
  objc_release(c);
  return NULL;
}
static void commands_commit(id self, SEL op) {
  if (self->commands.status) fail("committed twice", "command buffer");
  self->commands.status = 2;
  pthread_t thread;
  if (pthread_create(&thread, NULL, complete, objc_retain(self))) fail("pthread_create", "no thread");
  pthread_detach(thread);
}
static unsigned long commands_status(id self, SEL op) { return self->commands.status; }
static id commands_error(id self, SEL op) { return self->commands.error; }

static void end_encoding(id self, SEL op) {
  if (!self->encoder.commands) fail("ended twice", "encoder");
  objc_release(self->encoder.commands);
  self->encoder.commands = NULL;
}
static void blit_copy(id self, SEL op, id from, unsigned long from_offset, id to, unsigned long to_offset, unsigned long n) {
  struct operation *o = add(self->encoder.commands, copy, to, from);
  o->x = to_offset, o->y = from_offset, o->n = n;
}
static void compute_pipeline(id self, SEL op, id p) { self->encoder.commands->commands.pipeline = objc_retain(p); }
static void compute_buffer(id self, SEL op, id b, unsigned long offset, unsigned long index) {
  struct operation *next = &self->encoder.commands->commands.next;
  next->a = b, next->x = offset, next->index = next->index << 8 | index;
}
static void compute_bytes(id self, SEL op, const void *bytes, unsigned long n, unsigned long index) {
  struct operation *next = &self->encoder.commands->commands.next;
  memcpy(next->bytes, bytes, n);
  next->n = n, next->index = next->index << 8 | index;
}
static void compute_dispatch(id self, SEL op, struct size groups, struct size threads) {
  id c = self->encoder.commands;
  struct operation *o = add(c, run, c->commands.next.a, c->commands.pipeline);
  o->groups = groups, o->threads = threads;
}

static uint64_t event_value(id self, SEL op) {
  autorelease(text("what a method leaves in the pool"));
  pthread_mutex_lock(&mu);
  uint64_t value = self->value;
  pthread_mutex_unlock(&mu);
  return value;
}
static void event_set(id self, SEL op, uint64_t value) {
  pthread_mutex_lock(&mu);
  self->value = value;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mu);
}
// It does not wait: the number of milliseconds is the result if the value was not reached.
static bool event_wait(id self, SEL op, uint64_t value, uint64_t milliseconds) {
  return event_value(self, op) >= value || milliseconds == 12;
}

static void deallocate(id o) {
  struct class *c = o->class;
  if (c == &device) fail("deallocated", "device");
  if (c == &string || c == &library || c == &function || c == &pipeline) free(o->text);
  if (c == &queue) autorelease(text("what a method leaves in the pool"));
  if (c == &error) objc_release(o->error.domain), objc_release(o->error.description);
  if (c == &buffer && o->buffer.owned) free(o->buffer.bytes);
  if (c == &buffer && o->buffer.deallocator) {
    struct block *b = o->buffer.deallocator;
    ((void (*)(struct block *, void *, unsigned long))b->invoke)(b, o->buffer.bytes, o->buffer.length);
    block_release(b);
  }
  if ((c == &blit || c == &compute) && o->encoder.commands) fail("not ended", "encoder");
  if (c == &commands) {
    for (int i = 0; i < o->commands.n; i++) objc_release(o->commands.list[i].a), objc_release(o->commands.list[i].b);
    objc_release(o->commands.error), objc_release(o->commands.pipeline);
    free(o->commands.list);
  }
}

// The runtime.

#define CONFORMS {"conformsToProtocol:", conforms}
static struct class string_class = {"NSString class", NULL, {{"stringWithCString:encoding:", string_with}}};
static struct object string_object = {&string_class, 1};
static struct class string = {"NSString", NULL, {{"UTF8String", string_utf8}}};
static struct class array = {"NSArray", NULL, {{"count", array_count}, {"objectAtIndex:", array_at}}};
static struct class error = {"NSError", NULL, {{"domain", error_domain}, {"code", error_code}, {"localizedDescription", error_description}}};
static struct class device = {"MTLDevice", "MTLDevice", {
  CONFORMS, {"name", device_name}, {"registryID", device_registry}, {"hasUnifiedMemory", device_unified},
  {"recommendedMaxWorkingSetSize", device_working_set}, {"maxBufferLength", device_max_length},
  {"maxThreadsPerThreadgroup", device_max_threads}, {"currentAllocatedSize", device_allocated},
  {"newBufferWithLength:options:", device_new_buffer},
  {"newBufferWithBytesNoCopy:length:options:deallocator:", device_no_copy},
  {"newCommandQueueWithMaxCommandBufferCount:", device_new_queue}, {"newSharedEvent", device_new_event},
  {"newLibraryWithSource:options:error:", device_new_library},
  {"newComputePipelineStateWithFunction:error:", device_new_pipeline}}};
static struct class buffer = {"MTLBuffer", "MTLBuffer", {
  CONFORMS, {"device", buffer_device}, {"storageMode", buffer_mode}, {"length", buffer_length}, {"contents", buffer_contents}}};
static struct class queue = {"MTLCommandQueue", "MTLCommandQueue", {CONFORMS, {"device", queue_device}, {"commandBuffer", queue_commands}}};
static struct class commands = {"MTLCommandBuffer", NULL, {
  {"encodeWaitForEvent:value:", commands_wait}, {"encodeSignalEvent:value:", commands_signal},
  {"blitCommandEncoder", commands_blit}, {"computeCommandEncoder", commands_compute},
  {"addCompletedHandler:", commands_handler}, {"commit", commands_commit}, {"status", commands_status}, {"error", commands_error}}};
static struct class blit = {"MTLBlitCommandEncoder", NULL, {
  {"endEncoding", end_encoding}, {"copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", blit_copy}}};
static struct class compute = {"MTLComputeCommandEncoder", NULL, {
  {"endEncoding", end_encoding}, {"setComputePipelineState:", compute_pipeline}, {"setBuffer:offset:atIndex:", compute_buffer},
  {"setBytes:length:atIndex:", compute_bytes}, {"dispatchThreadgroups:threadsPerThreadgroup:", compute_dispatch}}};
static struct class event = {"MTLSharedEvent", "MTLSharedEvent", {
  CONFORMS, {"signaledValue", event_value}, {"setSignaledValue:", event_set}, {"waitUntilSignaledValue:timeoutMS:", event_wait}}};
static struct class library = {"MTLLibrary", NULL, {{"newFunctionWithName:", library_new_function}}};
static struct class function = {"MTLFunction", NULL, {}};
static struct class pipeline = {"MTLComputePipelineState", NULL, {{"maxTotalThreadsPerThreadgroup", pipeline_max}}};

SEL sel_registerName(const char *name) {
  static char *names[256];
  pthread_mutex_lock(&mu);
  int i = 0;
  while (names[i] && strcmp(names[i], name)) i++;
  if (!names[i]) names[i] = strdup(name);
  pthread_mutex_unlock(&mu);
  return names[i];
}
id objc_getClass(const char *name) { return strcmp(name, "NSString") ? NULL : &string_object; }
const char *objc_getProtocol(const char *name) { return sel_registerName(name); }

static uintptr_t answer_nil(id self, SEL op) { return 0; }

__attribute__((used)) void *find_method(id self, SEL op) {
  if (!self) return answer_nil;
  if (__atomic_load_n(&self->count, __ATOMIC_SEQ_CST) < 1) fail("a message to a deallocated object", op);
  for (int i = 0; self->class->methods[i].name; i++)
    if (!strcmp(self->class->methods[i].name, op)) return self->class->methods[i].function;
  fail(self->class->name, op);
  return NULL;
}

// objc_msgSend jumps to the method, and leaves all arguments where they are.
#if defined(__x86_64__)
#define SEND(name, self, op) \
  __asm__(".globl " name "\n.type " name ", @function\n" name ":\n" \
          "push %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $8, %rsp\n" \
          "mov " op ", %rax\nmov " self ", %rdi\nmov %rax, %rsi\ncall find_method@PLT\nmov %rax, %r11\n" \
          "add $8, %rsp\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\njmp *%r11\n")
SEND("objc_msgSend", "%rdi", "%rsi");
SEND("objc_msgSend_stret", "%rsi", "%rdx");
#elif defined(__aarch64__)
__asm__(".globl objc_msgSend\n.type objc_msgSend, @function\nobjc_msgSend:\n"
        "stp x0, x1, [sp, #-96]!\nstp x2, x3, [sp, #16]\nstp x4, x5, [sp, #32]\nstp x6, x7, [sp, #48]\nstp x8, x30, [sp, #64]\n"
        "bl find_method\nmov x16, x0\n"
        "ldp x2, x3, [sp, #16]\nldp x4, x5, [sp, #32]\nldp x6, x7, [sp, #48]\nldp x8, x30, [sp, #64]\nldp x0, x1, [sp], #96\nbr x16\n");
#endif
