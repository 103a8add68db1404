// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

// Package boundtemplate executes Go templates with limited steps, time and memory.
//
//	m := boundtemplate.New(clock.RealClock{}, boundtemplate.StepsOf(clusters))
//	t, err := template.New("t").Funcs(m.Functions()).Parse(text)
//	m.Instrument(t, text)
//	m.Begin()
//	err = t.Execute(out, values)
package boundtemplate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
	"unicode/utf8"

	"k8s.io/utils/clock"
)

// These limits apply to a template on one cluster. Steps are the same on all machines, so a
// template that is accepted once is always accepted. The time limit covers costs that steps do not
// count, for example sorting the keys of a large map.
const (
	// MaxBytes is the maximum output of each call of a function. The caller limits the output of a
	// template.
	MaxBytes = 1 << 20

	maxSteps = 1_000_000
	maxTime  = 10 * time.Second
	// together, and togetherOnCluster for each cluster, limit all templates of an application,
	// because other applications wait for them.
	together          = 2 * maxSteps
	togetherOnCluster = 20_000

	roundCost = 10  // of each round of a loop, in addition to its nodes
	callCost  = 100 // of a template in a template, for its place on the stack
)

// Meter counts the resources that the execution of a template uses. Go's templates cannot be
// interrupted, so they are changed to call the meter: each loop body, and each template, begins
// with a call. See Instrument.
type Meter struct {
	clock clock.PassiveClock
	steps int // left for the execution
	all   int // left for the application
	end   time.Time
}

// LimitError ends an execution.
type LimitError struct {
	Line    int // of the body, or 0
	problem string
}

func (e *LimitError) Error() string {
	if e.Line == 0 {
		return e.problem
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.problem)
}

// New returns a meter for templates that may take a number of steps together.
func New(c clock.PassiveClock, steps int) *Meter { return &Meter{clock: c, all: steps} }

// StepsOf returns the steps of all templates of an application on a number of clusters.
func StepsOf(clusters int) int { return together + clusters*togetherOnCluster }

// Begin resets the limits of one execution.
func (m *Meter) Begin() { m.steps, m.end = maxSteps, m.clock.Now().Add(maxTime) }

// step is the function that templates call.
func (m *Meter) step(line, cost int) (string, error) {
	if err := m.spend(cost); err != nil {
		err.Line = line
		return "", err
	}
	return "", nil
}

func (m *Meter) spend(steps int) *LimitError {
	if m.all -= steps; m.all < 0 {
		return &LimitError{problem: fmt.Sprintf(
			"the templates of the application take more than %d steps, and %d for each cluster",
			together, togetherOnCluster)}
	}
	if m.steps -= steps; m.steps < 0 {
		return &LimitError{problem: fmt.Sprintf("more than %d steps on a cluster", maxSteps)}
	}
	if m.clock.Now().After(m.end) {
		return &LimitError{problem: fmt.Sprintf("more than %s on a cluster", maxTime)}
	}
	return nil
}

// Wait calls f, and does not count its time.
func (m *Meter) Wait(f func()) {
	began := m.clock.Now()
	f()
	m.end = m.end.Add(m.clock.Since(began))
}

// made counts the text that a function has created: a step for each 64 bytes.
func (m *Meter) made(text string) (string, error) {
	if len(text) > MaxBytes {
		return "", ErrTooMuch()
	}
	if err := m.spend(len(text) / 64); err != nil {
		return "", err
	}
	return text, nil
}

// ErrTooMuch returns the error of a text that is longer than MaxBytes.
func ErrTooMuch() error { return fmt.Errorf("more than %d bytes of output", MaxBytes) }

// stepName cannot be used by a template, because the function is added after the template was
// parsed.
const stepName = "step"

// Instrument makes a template call its meter. A step is a node of the syntax: an action, a text
// between two actions, a function, an argument.
func (m *Meter) Instrument(t *template.Template, text string) {
	for _, one := range t.Templates() {
		if one.Tree != nil && one.Root != nil {
			begin(one.Root, text, callCost)
		}
	}
	t.Funcs(template.FuncMap{stepName: m.step})
}

// begin inserts a call before a list of nodes. It has the cost of all nodes, whichever branch is
// executed.
func begin(list *parse.ListNode, text string, cost int) {
	cost += costOf(list, text)
	line := 1 + strings.Count(text[:min(int(list.Pos), len(text))], "\n")
	trees, err := parse.Parse(stepName, fmt.Sprintf("{{ %s %d %d }}", stepName, line, cost), "", "",
		map[string]any{stepName: true})
	if err != nil {
		panic(err) // it has a name and two numbers
	}
	list.Nodes = append(trees[stepName].Root.Nodes, list.Nodes...)
}

// costOf counts the nodes of a node, except loop bodies, which are counted in each round.
func costOf(node parse.Node, text string) int {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return 0
		}
		return costOfAll(n.Nodes, text)
	case *parse.IfNode:
		return 1 + costOf(n.Pipe, text) + costOf(n.List, text) + costOf(n.ElseList, text)
	case *parse.WithNode:
		return 1 + costOf(n.Pipe, text) + costOf(n.List, text) + costOf(n.ElseList, text)
	case *parse.RangeNode:
		begin(n.List, text, roundCost)
		return 1 + costOf(n.Pipe, text) + costOf(n.ElseList, text)
	case *parse.ActionNode:
		return 1 + costOf(n.Pipe, text)
	case *parse.TemplateNode:
		return 1 + costOf(n.Pipe, text)
	case *parse.PipeNode:
		if n == nil {
			return 0
		}
		return costOfAll(n.Cmds, text)
	case *parse.CommandNode:
		return costOfAll(n.Args, text)
	case *parse.ChainNode:
		return 1 + costOf(n.Node, text)
	}
	return 1
}

func costOfAll[N parse.Node](nodes []N, text string) (cost int) {
	for _, n := range nodes {
		cost += costOf(n, text)
	}
	return cost
}

// Functions returns functions for templates. Functions of Go that create text have a limit:
// otherwise a few calls in a row could use all memory.
func (m *Meter) Functions() template.FuncMap {
	return template.FuncMap{
		"quote": func(text string) (string, error) {
			if !utf8.ValidString(text) {
				return "",
					errors.New("not valid UTF-8: use base64, for the data of a Secret or the binaryData of a ConfigMap")
			}
			data, err := json.Marshal(text)
			if err != nil {
				return "", err
			}
			return m.made(string(data))
		},
		"base64": func(text string) (string, error) { return m.made(base64.StdEncoding.EncodeToString([]byte(text))) },
		"indent": func(n int, text string) (string, error) {
			lines := strings.Count(text, "\n")
			if n = max(n, 0); lines == 0 {
				return text, nil
			} else if n > MaxBytes/lines {
				return "", ErrTooMuch()
			}
			return m.made(strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n)))
		},
		"print":    m.limit(fmt.Sprint),
		"println":  m.limit(fmt.Sprintln),
		"html":     m.limit(template.HTMLEscaper),
		"js":       m.limit(template.JSEscaper),
		"urlquery": m.limit(template.URLQueryEscaper),
		"printf":   m.printf,
	}
}

// limit limits a function with a result that is at most a constant factor longer than its
// arguments.
func (m *Meter) limit(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		total := 0
		for _, arg := range args {
			total += sizeOf(arg)
		}
		if total > MaxBytes {
			return "", ErrTooMuch()
		}
		return m.made(f(args...))
	}
}

var number = regexp.MustCompile(`\d+`)

// printf limits fmt.Sprintf, which creates its whole result before the length can be checked: a
// verb may have a width of a million, and several verbs may use the same argument.
func (m *Meter) printf(format string, args ...any) (string, error) {
	const widest = 1_000_000 // the limit of fmt
	width, longest, total := 0, 0, len(format)
	for _, digits := range number.FindAllString(format, -1) {
		n, err := strconv.Atoi(digits)
		if err != nil {
			n = widest
		}
		width = max(width, min(n, widest))
	}
	if strings.Contains(format, "*") {
		width = widest
	}
	for _, arg := range args {
		longest = max(longest, sizeOf(arg))
		total += sizeOf(arg)
	}
	// A verb has a width and a precision, and writes up to five bytes for each byte of the argument.
	// No verb writes more than 512 bytes for a number.
	if bound := len(format) + strings.Count(format, "%")*(2*width+5*longest+512) + total; bound > 64*MaxBytes {
		return "", fmt.Errorf("the result may have more than %d bytes", MaxBytes)
	}
	if err := m.spend(total / 64); err != nil {
		return "", err
	}
	return m.made(fmt.Sprintf(format, args...))
}

// sizeOf returns the number of bytes that a value prints.
func sizeOf(value any) int {
	if text, ok := value.(string); ok {
		return len(text)
	}
	return len(fmt.Sprint(value))
}
