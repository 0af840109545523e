// Package avtest makes frames for the tests of package ffmpeg: cgo is not possible in test files.
package avtest
