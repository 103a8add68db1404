// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package appcontext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by all errors of this package, for errors.Is.
var ErrInvalid = errors.New("invalid app context")

// Fault is the kind of a problem.
type Fault string

// The faults.
const (
	FaultBadName          Fault = "BadName"          // a name that is empty, too long, or has invalid characters
	FaultDuplicate        Fault = "Duplicate"        // two equal apps, clusters of an app, dependencies or objects
	FaultUnknownApp       Fault = "UnknownApp"       // a dependency on an app that the context does not have
	FaultCycle            Fault = "Cycle"            // dependencies form a cycle
	FaultBadDependency    Fault = "BadDependency"    // a status other than Deployed and Ready, or a negative wait
	FaultBadHook          Fault = "BadHook"          // an unknown hook, one that never ends, or wrong delete policies
	FaultBadWave          Fault = "BadWave"          // a wave that does not fit into 32 bits
	FaultBadOverride      Fault = "BadOverride"      // an override of an unknown object, or one that fails
	FaultBadManifest      Fault = "BadManifest"      // not one YAML or JSON object with apiVersion, kind and name
	FaultIdentityMismatch Fault = "IdentityMismatch" // the manifest has another object than the resource
	FaultTooLarge         Fault = "TooLarge"         // an app on one cluster, or the list of apps, exceeds the limit
	FaultBadLayout        Fault = "BadLayout"        // keys or values that EMCO does not write
	FaultNotRepresentable Fault = "NotRepresentable" // EMCO's keys cannot represent it
)

// Problem is a problem of a context, with its place.
type Problem struct {
	Fault Fault
	// Where is the place, for example `app "web"` or `app "web", cluster "edge+c1", ConfigMap web`.
	Where string
	// What describes the problem and the remedy. It has no content of a manifest.
	What string
}

// Error returns the place and the problem.
func (p *Problem) Error() string {
	if p.Where == "" {
		return p.What
	}
	return p.Where + ": " + p.What
}

// Unwrap returns ErrInvalid.
func (p *Problem) Unwrap() error { return ErrInvalid }

// Error lists the problems of a context.
type Error struct {
	ID       string
	Problems []*Problem // 100 at most
	More     int        // the number of further problems
}

// Error lists the problems.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems), len(e.Problems)+1)
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems", e.More))
	}
	return fmt.Sprintf("app context %q is invalid: %s", e.ID, strings.Join(lines, "; "))
}

// Unwrap returns the problems, so errors.As finds a [*Problem].
func (e *Error) Unwrap() []error {
	out := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		out[i] = p
	}
	return out
}

// Has reports whether an error of this package has the fault.
func Has(err error, fault Fault) bool {
	var all *Error
	if errors.As(err, &all) {
		return slices.ContainsFunc(all.Problems, func(p *Problem) bool { return p.Fault == fault })
	}
	var one *Problem
	return errors.As(err, &one) && one.Fault == fault
}
