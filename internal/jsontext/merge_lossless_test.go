// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/spokewire/sdk-go/internal/jsontext"
	"github.com/spokewire/sdk-go/internal/testing/losslesstest"
)

var seeds = flag.Uint64("jsontext.seeds", 0, "seeds of TestUnknownFieldsStayWithTheirElement, 1000 by default")

// shapes has lists of all kinds.
type shapes struct {
	Named  []named          `json:"named,omitempty"`
	Tagged []tagged         `json:"tagged,omitempty" patchMergeKey:"host"`
	Ports  []endpoint       `json:"ports,omitempty"`
	Plain  []*plain         `json:"plain,omitempty"`
	Nested [][]plain        `json:"nested,omitempty"`
	Map    map[string]plain `json:"map,omitempty"`
	Words  []string         `json:"words"`
	Child  *plain           `json:"child,omitempty"`
	Zero   leaf             `json:"zero,omitzero"`
	common `json:",inline"`
}

type common struct {
	Shared []leaf `json:"shared,omitempty"`
}

type named struct {
	Value string  `json:"value,omitempty"`
	Name  string  `json:"name,omitempty"`
	Plain []plain `json:"plain,omitempty"`
}

type tagged struct {
	Name string  `json:"name,omitempty"` // not the key
	Host string  `json:"host"`
	Sub  []named `json:"sub,omitempty"`
}

type endpoint struct {
	Port     int32  `json:"port"`
	Protocol string `json:"protocol,omitempty"`
	Leaf     *leaf  `json:"leaf,omitempty"`
}

type plain struct {
	Weight int32   `json:"weight"`
	Title  string  `json:"title,omitempty"`
	Leaves []leaf  `json:"leaves,omitempty"`
	Named  []named `json:"named,omitempty"`
	On     bool    `json:"on,omitempty"`
}

type leaf struct {
	A string `json:"a,omitempty"`
	B int64  `json:"b,omitempty"`
}

var keys = losslesstest.Keys{
	reflect.TypeFor[named]():    {"name"},
	reflect.TypeFor[tagged]():   {"host"},
	reflect.TypeFor[endpoint](): {"port", "protocol"},
}

// fill sets a value and its fields and elements to random values.
func fill(random *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if random.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(random, v.Elem(), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if depth == 0 && random.IntN(2) > 0 {
				continue
			}
			if v.Type().Field(i).IsExported() {
				fill(random, v.Field(i), depth+1)
			} else {
				common := v.Addr().Interface().(*shapes)
				fill(random, reflect.ValueOf(&common.Shared).Elem(), depth+1)
			}
		}
	case reflect.Slice:
		n := random.IntN(5 - depth%4)
		if depth > 3 {
			n = random.IntN(5) / 4
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(random, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range random.IntN(3) {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(random, value, depth+1)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key%d", i)), value)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("v%d", random.IntN(1_000_000)))
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	default:
		v.SetInt(int64(1 + random.IntN(9_000)))
	}
}

// TestUnknownFieldsStayWithTheirElement edits random objects. No unknown field moves to another
// element or is lost, unless Merge returns an error. Merge returns no error if the edit is certain.
func TestUnknownFieldsStayWithTheirElement(t *testing.T) {
	n := *seeds
	if n == 0 {
		n = 1000
	}
	uncertain, failed := 0, 0
	for seed := range n {
		random := rand.New(rand.NewPCG(seed, 1))
		sample := &shapes{}
		fill(random, reflect.ValueOf(sample).Elem(), 0)
		c := losslesstest.New(seed, sample, keys)
		if !c.Certain {
			uncertain++
		}
		merged, err := jsontext.Merge(c.Raw, c.Before, c.After, reflect.TypeFor[shapes](), false)
		var e *jsontext.UncertainError
		switch {
		case errors.As(err, &e) && !c.Certain:
			failed++
		case err != nil:
			t.Fatalf("seed %d: %v\n%s", seed, err, c)
		default:
			if err := c.Judge(merged, false); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if merged, err = jsontext.Merge(c.Raw, c.Before, c.After, reflect.TypeFor[shapes](), true); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, c)
		}
		if err := c.Judge(merged, true); err != nil {
			t.Fatalf("seed %d, fields may be dropped: %v", seed, err)
		}
	}
	t.Logf("%d edits: %d are uncertain, %d failed", n, uncertain, failed)
	if n >= 100 && (failed == 0 || failed > int(n/3)) { // make fuzz may have few seeds
		t.Errorf("%d of %d edits failed", failed, n)
	}
}
