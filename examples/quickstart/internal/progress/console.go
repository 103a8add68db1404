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

// redraw is the interval between updates of the table.
const redraw = 80 * time.Millisecond

// Terminal describes a terminal. Nil means that the output is not a terminal.
type Terminal struct {
	// Size returns the current columns and lines.
	Size func() (width, height int)
	// Color allows colors.
	Color bool
}

// DetectTerminal returns the terminal of w, or nil if w is not a terminal or cannot move its
// cursor. Colors are disabled if the environment variable NO_COLOR is set (https://no-color.org).
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
	drawn  int  // lines of the table on the terminal
	dirty  bool // the table has changed since it was drawn
	frozen bool
	err    error // the first write error
}

// NewConsole returns a console that writes lines or, if there is a terminal, draws a table while
// [Console.Start] runs.
func NewConsole(w io.Writer, t *Terminal) *Console {
	return &Console{w: w, terminal: t, board: NewBoard(time.Now())}
}

// ConsoleFor returns a console for w. It draws a table if w is a terminal and lines is false.
func ConsoleFor(w io.Writer, lines bool) *Console {
	if lines {
		return NewConsole(w, nil)
	}
	return NewConsole(w, DetectTerminal(w, os.Getenv))
}

// Err returns the first write error, such as that of a full disk.
func (c *Console) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("write progress: %w", c.err)
}

// write writes a text and stores the first error. The caller holds the mutex.
func (c *Console) write(text string) {
	if _, err := io.WriteString(c.w, text); err != nil && c.err == nil {
		c.err = err
	}
}

// Event prints a step.
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

// Print writes a permanent line. The table moves below it.
func (c *Console) Print(format string, args ...any) {
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

// Freeze stops updates of the table: on a terminal, later steps are not shown, only messages of
// Print. Output as lines continues.
func (c *Console) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.terminal == nil || c.frozen {
		return
	}
	c.finish()
	c.frozen = true
}

// finish draws the table a last time and shows the cursor again. The caller holds the mutex.
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

// Start keeps the table up to date until ctx ends. Then it draws the table a last time and shows
// the cursor again. Later messages are below the table. Without a terminal, Start only waits.
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

// draw overwrites the table in a single write, line by line and without clearing the screen, to
// avoid flicker.
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
