// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// redraw is how often a table is drawn anew while it changes; faster than that nobody reads.
const redraw = 80 * time.Millisecond

// Terminal says how to draw on a terminal; nil means that the output is none.
type Terminal struct {
	// Size returns the columns and lines it has now.
	Size func() (width, height int)
	// Color allows colors.
	Color bool
}

// DetectTerminal returns how to draw on w, or nil if w is no terminal or one that cannot move its cursor.
// Colors are left out where the environment variable NO_COLOR is set (https://no-color.org).
func DetectTerminal(w io.Writer, getenv func(string) string) *Terminal {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || getenv("TERM") == "dumb" {
		return nil
	}
	return &Terminal{
		Color: getenv("NO_COLOR") == "",
		Size: func() (int, int) {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil || width < 1 || height < 2 {
				return 80, 24
			}
			return width, height
		},
	}
}

// Console writes progress. Its methods may be called concurrently.
type Console struct {
	terminal *Terminal

	mu     sync.Mutex
	w      io.Writer
	board  *Board
	drawn  int  // lines of the table now on the terminal
	dirty  bool // the table has changed since
	frozen bool
	err    error // the first of writing
}

// NewConsole returns a console that writes lines or, if there is a terminal, draws a table while
// [Console.Start] runs.
func NewConsole(w io.Writer, t *Terminal) *Console {
	return &Console{w: w, terminal: t, board: NewBoard(time.Now())}
}

// ConsoleFor returns a console for w: a table if that is a terminal, unless lines are asked for.
func ConsoleFor(w io.Writer, lines bool) *Console {
	if lines {
		return NewConsole(w, nil)
	}
	return NewConsole(w, DetectTerminal(w, os.Getenv))
}

// Err returns the first error of writing, such as a full disk's.
func (c *Console) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("write progress: %w", c.err)
}

// write keeps the first error. The caller holds the mutex.
func (c *Console) write(text string) {
	if _, err := io.WriteString(c.w, text); err != nil && c.err == nil {
		c.err = err
	}
}

// Event shows a step.
func (c *Console) Event(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen || !c.board.Add(e) {
		return
	}
	if c.terminal == nil {
		c.write(c.board.Line(e) + "\n")
		return
	}
	c.dirty = true
}

// Say writes a line that stays; the table moves below it.
func (c *Console) Say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if c.drawn == 0 {
		c.write(text + "\n")
		return
	}
	c.write(up(c.drawn) + "\x1b[J" + text + "\n")
	c.drawn = 0
	c.draw()
}

// Freeze leaves the table as it is: later steps are not shown on a terminal, only what is said. Lines go on.
func (c *Console) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.terminal == nil || c.frozen {
		return
	}
	c.finish()
	c.frozen = true
}

// finish draws the table a last time and gives the cursor back. The caller holds the mutex.
func (c *Console) finish() {
	if c.frozen {
		return
	}
	c.draw()
	if c.drawn > 0 {
		c.write("\x1b[?25h")
	}
	c.drawn = 0
}

// Start keeps the table up to date until ctx ends; then it draws it a last time and gives the cursor back. What
// is said afterwards comes below. Without a terminal there is nothing to do but wait.
func (c *Console) Start(ctx context.Context) error {
	if c.terminal == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(redraw)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			c.mu.Lock()
			c.finish()
			c.mu.Unlock()
			return nil
		case <-ticker.C:
			c.mu.Lock()
			if c.dirty {
				c.draw()
			}
			c.mu.Unlock()
		}
	}
}

// draw writes the table over the one before in a single write, line by line without clearing the screen, so
// that nothing flickers.
func (c *Console) draw() {
	c.dirty = false
	if len(c.board.rows) == 0 {
		return
	}
	width, height := c.terminal.Size()
	var text strings.Builder
	text.WriteString("\x1b[?25l" + up(c.drawn))
	// The cursor ends on a line of its own below the table.
	lines := c.board.Table(Size{Width: width, Height: height - 1, Color: c.terminal.Color})
	for _, line := range lines {
		text.WriteString(line + "\x1b[K\n")
	}
	text.WriteString("\x1b[J")
	c.write(text.String())
	c.drawn = len(lines)
}

// up moves the cursor to the start of the table.
func up(lines int) string {
	if lines == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r", lines)
}
