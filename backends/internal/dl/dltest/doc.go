// Package dltest provides drivers that misbehave, for tests. [Hijack] makes a library that passes calls on to
// a driver, and replaces the process's signal handlers as some drivers do.
package dltest
