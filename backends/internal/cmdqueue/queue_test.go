package cmdqueue_test

import (
	"errors"
	"math"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/cmdqueue"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestItemsRunInTheirOrder(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	var order sequence
	d.pause()
	err := errors.Join(
		q.add(t, item{Commands: order.commands('a')}),
		q.add(t, item{Commands: order.commands('b')}),
		q.add(t, item{Host: order.host('c'), Quick: true}), // held, since a is not done
		q.add(t, item{Commands: order.commands('d')}),
		q.add(t, item{Host: order.host('e')}),
	)
	if err != nil {
		t.Fatal(err)
	}
	order.want(t, "")
	d.resume()
	if err := q.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	order.want(t, "abcde")
	if err := q.add(t, item{Host: order.host('f'), Quick: true}); err != nil {
		t.Fatal(err)
	}
	order.want(t, "abcdef") // by the caller
}

// An early item runs before earlier items are done, but for the one that it names, and the next item behind it.
func TestAnEarlyItemRunsBeforeOthersAreDone(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	var order sequence
	d.pause()
	ran := make(chan struct{})
	err := errors.Join(
		q.add(t, item{Commands: order.commands('b')}),
		q.add(t, item{Early: true, Host: func() error { close(ran); return order.host('a')() }}),
		q.add(t, item{Commands: order.commands('c')}),
	)
	if err != nil {
		t.Fatal(err)
	}
	<-ran
	d.resume()
	if err := q.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	order.want(t, "abc")
}

func TestCommandsThatFailAreNotAdded(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	var order sequence
	d.fail(errTest, nil, cmdqueue.ErrByHost)
	if err := q.add(t, item{Commands: order.commands('a')}); !errors.Is(err, errTest) {
		t.Errorf("error %v, want that of the commands", err)
	}
	if n := q.Newest(); n != 0 || q.refused != 1 {
		t.Errorf("the newest item is %d, and the driver took back %d; want 0 and 1", n, q.refused)
	}
	err := errors.Join(
		q.add(t, item{Commands: order.commands('b')}),
		q.add(t, item{Commands: order.commands('c'), Host: order.host('C')}), // the host must
		q.Synchronize(t.Context()),
	)
	if err != nil {
		t.Fatal(err)
	}
	order.want(t, "bC")
}

// Commands that fail behind an item of the host end with their error, or the host does their work.
func TestHeldCommandsThatFailAreReported(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	var order sequence
	begun, goOn := make(chan struct{}), make(chan struct{})
	var over error
	err := errors.Join(
		q.add(t, item{Host: func() error { close(begun); <-goOn; return nil }}),
		q.add(t, item{Commands: order.commands('a'), Over: func(_ uint64, failed error) { over = failed }}),
		q.add(t, item{Commands: order.commands('b'), Host: order.host('B')}),
		q.add(t, item{Commands: order.commands('c')}),
	)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	d.fail(errTest, errTest)
	close(goOn)
	if err := q.Synchronize(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("Synchronize: error %v, want that of the commands", err)
	}
	order.want(t, "Bc")
	if !errors.Is(over, errTest) {
		t.Errorf("Over got %v", over)
	}
}

// While so many commands are unfinished as a stream has room for, it holds others on the host.
func TestAStreamHoldsCommandsForWhichItHasNoRoom(t *testing.T) {
	d := open(t, 2)
	q := d.stream(t)
	var order sequence
	d.pause()
	for _, c := range []byte("abcdef") {
		if err := q.add(t, item{Commands: order.commands(c)}); err != nil {
			t.Fatal(err)
		}
	}
	q.Mu.Lock()
	if !q.Submitted(2) || q.Submitted(3) || !q.Holding() {
		t.Error("not the first two commands are submitted")
	}
	q.Mu.Unlock()
	d.resume()
	if err := q.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	order.want(t, "abcdef")
}

func TestAnEventReportsTheItemsSinceTheOneBefore(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	record := func() core.Event {
		t.Helper()
		e, err := q.Record()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	fails := func() error { return errTest }
	works := func() error { return nil }
	first := record()
	if err := errors.Join(q.add(t, item{Host: fails}), q.add(t, item{Host: works})); err != nil {
		t.Fatal(err)
	}
	second := record()
	if again := record(); again != second {
		t.Error("two events were recorded without work between them")
	}
	if err := q.add(t, item{Host: works}); err != nil {
		t.Fatal(err)
	}
	third := record()
	for _, c := range []struct {
		e    core.Event
		want error
	}{{first, nil}, {second, errTest}, {third, nil}} {
		if err := c.e.Wait(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("the event reports %v, want %v", err, c.want)
		}
	}
	if err := q.Synchronize(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("Synchronize: %v, want %v", err, errTest)
	}
	if err := q.Synchronize(t.Context()); err != nil {
		t.Errorf("Synchronize returned an error twice: %v", err)
	}
}

// An error of an early item is one of the next item, which belongs to the same copy.
func TestAnErrorOfAnEarlyItemIsThatOfTheNext(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	err := errors.Join(
		q.add(t, item{Host: func() error { return nil }}),
		q.add(t, item{Early: true, After: 1, Host: func() error { return errTest }}),
		q.add(t, item{Commands: commands(func() {})}))
	if err != nil {
		t.Fatal(err)
	}
	_ = q.At(2).Wait(t.Context())
	if err := q.Synchronize(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("Synchronize: %v, want %v", err, errTest)
	}
}

// Work waits for events of other streams: of the device and of the host.
func TestItemsWaitForOtherStreams(t *testing.T) {
	d := open(t, 0)
	q, other := d.stream(t), d.stream(t)
	var order sequence
	d.pause()
	if err := other.add(t, item{Commands: order.commands('a')}); err != nil {
		t.Fatal(err)
	}
	e, err := other.Record()
	if err == nil {
		err = q.Wait(e)
	}
	if err == nil {
		err = q.add(t, item{Host: order.host('b'), Quick: true})
	}
	if err == nil {
		err = q.Wait(e)
	}
	if err == nil {
		err = q.add(t, item{Commands: order.commands('c')})
	}
	if err != nil {
		t.Fatal(err)
	}
	order.want(t, "")
	d.resume()
	if err := q.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	order.want(t, "abc")
	if err := q.Wait(e); err != nil { // Close waits, too
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other.kept != 0 {
		t.Errorf("the timeline is kept %d times", other.kept)
	}
}

func TestCloseWaitsForAllItems(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	var order sequence
	d.pause()
	if err := errors.Join(q.add(t, item{Commands: order.commands('a')}), q.add(t, item{Host: func() error { order.add('b'); return errTest }})); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	for range 2 {
		go func() { closed <- q.Close() }()
	}
	d.resume()
	if first, second := <-closed, <-closed; !errors.Is(errors.Join(first, second), errTest) || first != nil && second != nil {
		t.Errorf("two calls returned %v and %v, want one error", first, second)
	}
	order.want(t, "ab")
	if !q.left {
		t.Error("the stream was not left")
	}
	coretest.WantError(t, q.Enter("test"), core.ErrClosed, "work for a closed stream")
}

// Memory that the host is copying to may not be freed, however lost the device is.
func TestALossWaitsForTheHost(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	if err := q.add(t, item{Host: func() error { close(begun); <-goOn; return nil }}); err != nil {
		t.Fatal(err)
	}
	e, err := q.Record()
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	lost := core.Errorf(core.ErrDeviceLost, "test", "test", "by the test")
	d.set(func() { _ = d.NoteLoss(lost) })
	if done, _ := e.Done(); done {
		t.Error("the event is done while the host is at work")
	}
	close(goOn)
	_ = e.Wait(t.Context())
	if done, _ := e.Done(); !done {
		t.Error("the event is not done after the wait")
	}
	coretest.WantError(t, q.Enter("test"), core.ErrDeviceLost, "work for a lost device")
	_, err = d.NewStream(t.Context())
	coretest.WantError(t, err, core.ErrDeviceLost, "a stream of a lost device")
}

// Events of a stream that other code uses, too, stand for that code's commands.
func TestAShownStreamIsMarked(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	first, err := q.Record()
	if err != nil {
		t.Fatal(err)
	}
	q.Show()
	second, err := q.Record()
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Error("no item stands for the commands of others")
	}
	if err := q.add(t, item{Host: func() error { return nil }}); err != nil {
		t.Fatal(err)
	}
	if n := q.Newest(); n != 3 { // a mark, a mark before the host's work, and that
		t.Errorf("the newest item is %d, want 3", n)
	}
}

func TestABinarySemaphoreIsNotUsedBehindTheHost(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	if err := q.add(t, item{Host: func() error { close(begun); <-goOn; return nil }}); err != nil {
		t.Fatal(err)
	}
	<-begun
	coretest.WantError(t, q.EnterSubmitted("test"), core.ErrNotSupported, "behind work of the host")
	close(goOn)
	if err := q.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := q.EnterSubmitted("test"); err != nil {
		t.Fatal(err)
	}
	q.Mu.Unlock()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	coretest.WantError(t, q.EnterSubmitted("test"), core.ErrClosed, "a closed stream")
}

func TestFailCoversAllLaterItems(t *testing.T) {
	d := open(t, 0)
	q := d.stream(t)
	if err := q.add(t, item{Host: func() error { return nil }, Quick: true}); err != nil {
		t.Fatal(err)
	}
	before, err := q.Record()
	if err != nil {
		t.Fatal(err)
	}
	q.Fail(2, math.MaxUint64, errTest)
	if err := q.add(t, item{Host: func() error { return nil }, Quick: true}); err != nil {
		t.Fatal(err)
	}
	behind, err := q.Record()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Done(); err != nil {
		t.Errorf("an item before fails: %v", err)
	}
	if _, err := behind.Done(); !errors.Is(err, errTest) {
		t.Errorf("an item behind reports %v", err)
	}
	if err := q.Synchronize(t.Context()); !errors.Is(err, errTest) {
		t.Errorf("Synchronize: %v", err)
	}
}
