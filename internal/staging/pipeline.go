package staging

import "context"

// Buffers is how many buffers a [Pipeline] has: one side empties one while the other side fills the other. More would
// not be faster, since the slower side is never idle.
const Buffers = 2

// Steps are what a [Pipeline] does with each piece. A step does the work, or enqueues it. B is a buffer. P describes a piece. A mark M says when enqueued work is done: it is an event, or
// the number of an item in a queue. The zero value says that there is nothing to wait for.
type Steps[B, P, M any] interface {
	// Fill fills a buffer with a piece when the work that free stands for has emptied it.
	Fill(ctx context.Context, b *B, piece P, free M) (filled M, err error)
	// Empty brings a piece from its buffer to where it goes when the work that filled stands for is done.
	Empty(ctx context.Context, b *B, piece P, filled M) (free M, err error)
}

// Pipeline brings pieces through staging buffers, in order, and uses the buffers in turn. It owns the buffers and knows
// which are full. After an error it does nothing more. A Pipeline is for one goroutine.
type Pipeline[B, P, M any] struct {
	Steps Steps[B, P, M]

	// Late says that a piece is emptied after the next one was filled. Steps that wait for work, or in which one
	// device waits for the other, are late: then the filling of the next piece is enqueued before they wait.
	Late bool

	slots [Buffers]slot[B, P, M]
	next  int // the buffer to fill next
	full  int // how many buffers before it are full
	err   error
}

// slot is a buffer, the piece in it if it is full, and the mark of its last step.
type slot[B, P, M any] struct {
	buffer B
	piece  P
	mark   M
}

// Use makes b a buffer, the one that is filled as number i, before the first Put. Without Use, buffers are zero values
// first, which Fill can replace.
func (p *Pipeline[B, P, M]) Use(i int, b B) { p.slots[i].buffer = b }

// Put fills the next buffer with a piece. It empties that buffer or, if the pipeline is late, the one before. It returns
// the first error of a step, of ctx or of an earlier call.
func (p *Pipeline[B, P, M]) Put(ctx context.Context, piece P) error {
	if p.err == nil {
		p.err = p.put(ctx, piece)
	}
	return p.err
}

func (p *Pipeline[B, P, M]) put(ctx context.Context, piece P) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := &p.slots[p.next]
	filled, err := p.Steps.Fill(ctx, &s.buffer, piece, s.mark)
	if err != nil {
		return err
	}
	s.piece, s.mark = piece, filled
	p.next = (p.next + 1) % Buffers
	p.full++
	if p.Late && p.full == 1 {
		return nil
	}
	return p.empty(ctx)
}

// empty empties the buffer that has been full for longest.
func (p *Pipeline[B, P, M]) empty(ctx context.Context) error {
	s := &p.slots[(p.next-p.full+Buffers)%Buffers]
	piece := s.piece
	s.piece = *new(P) // what it refers to may go
	p.full--
	var err error
	s.mark, err = p.Steps.Empty(ctx, &s.buffer, piece, s.mark)
	return err
}

// Flush empties the buffer that is still full, if the pipeline is late. Its errors are like those of Put.
func (p *Pipeline[B, P, M]) Flush(ctx context.Context) error {
	for p.err == nil && p.full > 0 {
		if p.err = ctx.Err(); p.err == nil {
			p.err = p.empty(ctx)
		}
	}
	return p.err
}

// Next returns the buffer that the next Put fills, and the mark of the work that has to be done before. Whoever uses it
// without Put, when that work is done, leaves it free.
func (p *Pipeline[B, P, M]) Next() (b *B, free M) {
	s := &p.slots[p.next]
	return &s.buffer, s.mark
}

// Close calls release for all buffers, also those that were not used, and forgets them with what is in them. Work that
// was enqueued may be unfinished, so release must leave to it what it uses. Close twice is safe: then release
// gets zero values.
func (p *Pipeline[B, P, M]) Close(release func(b *B)) {
	for i := range p.slots {
		release(&p.slots[i].buffer)
		p.slots[i] = slot[B, P, M]{}
	}
	p.next, p.full = 0, 0
}
