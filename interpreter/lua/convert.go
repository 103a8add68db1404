// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"fmt"
	"maps"
	"slices"

	glua "github.com/yuin/gopher-lua"

	"github.com/spokewire/sdk-go/internal/jsontext"
)

// fromJSON converts JSON to a value of the script.
func (m *meter) fromJSON(raw []byte) (glua.LValue, error) {
	value, err := m.parse(raw)
	if err != nil {
		return nil, err
	}
	return m.toLua(value)
}

func (m *meter) parse(raw []byte) (any, error) {
	if !m.chargeParsed(raw) {
		return nil, m.err
	}
	var value any
	err := jsontext.Decode(raw, &value)
	return value, err
}

// chargeParsed counts the memory of decoded JSON. The decoder itself rejects values that take much
// more memory than their text.
func (m *meter) chargeParsed(raw []byte) bool {
	size, err := jsontext.Memory(raw)
	return err != nil || m.charge(size)
}

// toLua converts a decoded value. The members of a table are in the order of their names. Null
// members are omitted, as in Karmada, because a table cannot have them.
func (m *meter) toLua(value any) (glua.LValue, error) {
	switch v := value.(type) {
	case map[string]any:
		return m.toObject(v)
	case []any:
		return m.toList(v)
	case string:
		if !m.charge(stringCost + len(v)) {
			return nil, m.err
		}
		return glua.LString(v), nil
	case bool:
		return glua.LBool(v), nil
	case int64:
		return m.toNumber(float64(v))
	case float64:
		return m.toNumber(v)
	case nil:
		return glua.LNil, nil
	}
	return nil, fmt.Errorf("a value of type %T cannot be passed to a script", value)
}

func (m *meter) toNumber(n float64) (glua.LValue, error) {
	if !m.charge(numberCost) {
		return nil, m.err
	}
	return glua.LNumber(n), nil
}

func (m *meter) toObject(members map[string]any) (glua.LValue, error) {
	if !m.charge(tableCost+memberCost*len(members)) || !m.spend(1+len(members)/8) {
		return nil, m.err
	}
	table := m.state.CreateTable(0, len(members))
	table.Metatable = m.object
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !m.charge(stringCost + len(name)) {
			return nil, m.err
		}
		v, err := m.toLua(members[name])
		if err != nil {
			return nil, err
		}
		if v != glua.LNil {
			table.RawSetString(name, v)
		}
	}
	return table, nil
}

func (m *meter) toList(elements []any) (glua.LValue, error) {
	if !m.charge(tableCost+elementCost*len(elements)) || !m.spend(1+len(elements)/8) {
		return nil, m.err
	}
	table := m.state.CreateTable(len(elements), 0)
	table.Metatable = m.list
	for _, element := range elements {
		v, err := m.toLua(element)
		if err != nil {
			return nil, err
		}
		if v == glua.LNil {
			return nil, fmt.Errorf("a list with null cannot be passed to a script: Lua has no null elements")
		}
		table.Append(v)
	}
	return table, nil
}
