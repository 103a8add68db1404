// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The limits of the text of a quantity. Sums and comparisons of quantities expand the number to all
// its digits, and parsing does with a negative exponent: 1e2147483647 takes minutes and all memory.
const (
	maxQuantity = 128
	maxExponent = 3 // digits
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// QuantityError is a quantity that is over the limits.
type QuantityError struct{ text string }

// Error returns a text with the beginning of the quantity.
func (e *QuantityError) Error() string {
	return fmt.Sprintf("the quantity %.32s has more than %d characters, or an exponent of more than %d digits",
		e.text, maxQuantity, maxExponent)
}

// checkQuantity checks the text of one quantity, a string or a number.
func checkQuantity(text []byte) error {
	number := text
	if len(number) >= 2 && number[0] == '"' {
		number = number[1 : len(number)-1]
	}
	rest := bytes.TrimRight(number, "0123456789")
	digits := len(number) - len(rest) // at the end
	if n := len(rest); n > 0 && (rest[n-1] == '+' || rest[n-1] == '-') {
		rest = rest[:n-1]
	}
	exponent := len(rest) > 0 && (rest[len(rest)-1] == 'e' || rest[len(rest)-1] == 'E')
	if len(number) > maxQuantity || exponent && digits > maxExponent {
		return &QuantityError{text: string(number)}
	}
	return nil
}

// checkQuantities checks each string and number that can be a quantity. It is for text that
// encoding/json decodes, where the fields with quantities are unknown.
func checkQuantities(data []byte) error {
	for i := 0; i < len(data); {
		c, end := data[i], i+1
		switch {
		case c == '"':
			end = skipString(data, i)
		case c == '-' || isDigit(c):
			end = skipWord(data, i)
		}
		if token := data[i:end]; numeric(token) {
			if err := checkQuantity(token); err != nil {
				return err
			}
		}
		i = end
	}
	return nil
}

func numeric(token []byte) bool {
	if token[0] == '"' && len(token) > 2 {
		token = token[1 : len(token)-1]
	}
	for _, c := range token {
		if !isDigit(c) && c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-' {
			return false
		}
	}
	return true
}
