// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"encoding/json"
	"fmt"
	"math"

	glua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/interpreter/native"
)

// openKube returns the library kube.
func (m *meter) openKube() *glua.LTable {
	module := m.state.NewTable()
	m.set(module, "resourceAdd", func(l *glua.LState) int {
		sum := resource.Quantity{}
		for i := 1; i <= l.GetTop(); i++ {
			m.check(m.spend(quantitySteps))
			sum.Add(quantity(l, i))
		}
		m.check(m.text(len(sum.String())))
		l.Push(glua.LString(sum.String()))
		return 1
	})
	m.set(module, "getResourceQuantity", func(l *glua.LState) int {
		arguments(l, "getResourceQuantity", 1)
		m.check(m.spend(quantitySteps))
		q := quantity(l, 1)
		n := q.AsApproximateFloat64()
		if n < 0 || math.IsInf(n, 1) {
			l.RaiseError("the quantity %s is negative or too large", q.String())
		}
		l.Push(glua.LNumber(n))
		return 1
	})
	m.set(module, "accuratePodRequirements", func(l *glua.LState) int {
		arguments(l, "accuratePodRequirements", 1)
		template := m.template(l)
		r := native.Requirements(&template.Spec, "")
		if r.NodeClaim == nil && r.ResourceRequest == nil && r.PriorityClassName == "" {
			l.Push(glua.LNil)
			return 1
		}
		m.push(l, r)
		return 1
	})
	m.set(module, "getPodDependencies", func(l *glua.LState) int {
		arguments(l, "getPodDependencies", 2)
		template, namespace := m.template(l), "default"
		if l.Get(2) != glua.LNil {
			namespace = l.CheckString(2)
		}
		m.push(l, native.Dependencies(&template.Spec, namespace))
		return 1
	})
	return module
}

// quantitySteps are the steps to parse or to add a quantity.
const quantitySteps = 16

func arguments(l *glua.LState, function string, n int) {
	if l.GetTop() != n {
		l.RaiseError("kube.%s: got %d arguments, expected %d", function, l.GetTop(), n)
	}
}

// quantity returns an argument as a quantity. Nil is 0.
func quantity(l *glua.LState, i int) resource.Quantity {
	v := l.Get(i)
	if v == glua.LNil {
		return resource.Quantity{}
	}
	var q resource.Quantity
	text := l.CheckString(i)
	raw, err := json.Marshal(text)
	if err == nil {
		err = jsontext.Decode(raw, &q) // which limits the length of a quantity
	}
	if err != nil {
		l.ArgError(i, fmt.Sprintf("%.64q is not a quantity", text))
	}
	return q
}

// template returns the first argument, a pod template.
func (m *meter) template(l *glua.LState) *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{}
	if err := m.decode(l.CheckTable(1), template); err != nil {
		m.check(m.err == nil)
		l.ArgError(1, "not a pod template: "+shorten(err.Error()))
	}
	return template
}

// push encodes a value and puts it on the stack.
func (m *meter) push(l *glua.LState, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		l.RaiseError("%s", shorten(err.Error()))
	}
	converted, err := m.fromJSON(raw)
	if err != nil {
		m.check(m.err == nil)
		l.RaiseError("%s", shorten(err.Error()))
	}
	l.Push(converted)
}
